"""The process that a pod starts, as a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_workloads.process.pid1 import LAST_BYTES, LastLines
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


FAILING = """
import os, sys
from imagenet_workloads.process.pid1 import LastLines, run_in_child

bodies = {
    "fails": lambda: [print("line", number, file=sys.stderr) for number in range(30)] and 3,
    "long": lambda: os.write(2, b"x" * 200_000) and 3,
    "aborts": lambda: os.write(2, b"terminate called\\n") and os.abort(),
    "ends": lambda: print("done", file=sys.stderr) or 0,
    "terminated": lambda: print("done", file=sys.stderr) or 143,
}
sys.exit(run_in_child(bodies[sys.argv[1]], LastLines.from_environment(os.environ)))
"""


def run(body: str, results: Path) -> subprocess.CompletedProcess[str]:
    pod = {"IMAGENET_RESULTS": str(results), "IMAGENET_ATTEMPT": "2", "POD_NAME": "a-worker-0"}
    command = [sys.executable, "-c", FAILING, body]
    return subprocess.run(
        command, env=os.environ | pod, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("body", "code", "lines"),
    [
        ("fails", 3, [f"line {number}" for number in range(10, 30)]),
        ("long", 3, ["x" * LAST_BYTES]),
        ("aborts", 134, ["terminate called"]),
        ("ends", 0, None),
        ("terminated", 143, None),
    ],
)
def test_the_end_of_a_failed_member_is_kept(
    body: str, code: int, lines: list[str] | None, tmp_path: Path
) -> None:
    ended = run(body, tmp_path)
    assert ended.returncode == code
    file = tmp_path / "attempts/r2/last-lines/a-worker-0.txt"
    assert (file.read_text().splitlines() if file.exists() else None) == lines


def test_everything_is_passed_on(tmp_path: Path) -> None:
    assert run("fails", tmp_path).stderr == "".join(f"line {number}\n" for number in range(30))
    assert run("long", tmp_path).stderr == "x" * 200_000


def test_the_first_of_a_pods_failed_slots_stays(tmp_path: Path) -> None:
    run("aborts", tmp_path)
    run("fails", tmp_path)
    (file,) = tmp_path.rglob("*.txt")
    assert file.read_text() == "terminate called\n"


def test_a_volume_that_cannot_be_written_changes_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / "attempts").touch()
    assert run("fails", tmp_path).returncode == 3


def test_without_an_output_volume_nothing_is_kept() -> None:
    assert LastLines.from_environment({"POD_NAME": "a-server-0", "IMAGENET_ATTEMPT": "0"}) is None
