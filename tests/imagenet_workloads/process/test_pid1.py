"""The process that a pod starts, as a process."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import is_running, wait_until

PROGRAM = """
import ctypes, os, signal, sys, time
from imagenet_workloads.process.pid1 import run_in_child

def stuck_in_c():
    # As a scheduler is: the main thread in C, where handlers of Python's never run.
    mutex = ctypes.create_string_buffer(64)
    library = ctypes.CDLL(None)
    library.pthread_mutex_lock(mutex)
    print(os.getpid(), flush=True)
    library.pthread_mutex_lock(mutex)

def waits_for_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    print(os.getpid(), flush=True)
    return 40 + signal.sigwait({signal.SIGUSR1})

def leaves_an_orphan():
    middle = os.fork()
    if middle == 0:
        orphan = os.fork()
        if orphan == 0:
            os._exit(0)
        print(orphan, flush=True)
        os._exit(0)
    os.waitpid(middle, 0)
    sys.stdin.readline()
    return 0

def raises():
    raise RuntimeError("no good")

bodies = {
    "returns": lambda: 7,
    "exits": lambda: sys.exit(),
    "exits with 3": lambda: sys.exit(3),
    "exits with text": lambda: sys.exit("bye"),
    "raises": raises,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stuck": stuck_in_c,
    "waits": waits_for_signal,
    "orphan": leaves_an_orphan,
}
# As PID 1 would be, this process is the one that orphans fall to.
ctypes.CDLL(None).prctl(36, 1)
sys.exit(run_in_child(bodies[sys.argv[1]]))
"""


def begin(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, body],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("returns", 7),
        ("exits", 0),
        ("exits with 3", 3),
        ("exits with text", 1),
        ("raises", 1),
        ("killed", 128 + signal.SIGKILL),
    ],
)
def test_it_ends_as_its_child(body: str, code: int) -> None:
    process = begin(body)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert ("no good" in error) is (body == "raises")


def test_sigterm_ends_a_child_that_is_stuck_in_c() -> None:
    process = begin("stuck")
    child = first_number(process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not is_running(child)


def test_other_signals_are_passed_on() -> None:
    process = begin("waits")
    first_number(process)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 40 + signal.SIGUSR1


def test_kill_9_takes_the_child_along() -> None:
    process = begin("stuck")
    child = first_number(process)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not is_running(child), "the child is gone")


def test_orphans_are_reaped() -> None:
    process = begin("orphan")
    orphan = first_number(process)
    wait_until(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan is reaped")
    assert is_running(process.pid)
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
