"""SIGTERM to a worker: time to save within the loop, none outside, an end in any case."""

import signal
import subprocess
import sys
import time

import pytest

from imagenet_workloads.process.termination import Termination
from support.sentences import assert_says

PROGRAM = """
import ctypes, sys, time
from imagenet_workloads.process.termination import Termination

grace, scene = float(sys.argv[1]), sys.argv[2]
termination = Termination(grace, is_hopeless=lambda: scene.startswith("hopeless"))
termination.listen()

def ready():
    print("ready", flush=True)

def stuck():
    mutex = ctypes.create_string_buffer(64)
    library = ctypes.CDLL(None)
    library.pthread_mutex_lock(mutex)
    ready()
    library.pthread_mutex_lock(mutex)

if scene == "outside":
    stuck()
with termination.deferred():
    if scene in ("stuck", "hopeless"):
        stuck()
    if scene == "hopeless, but writing":
        termination.is_writing = lambda: True
        ready()
        while not termination.requested:
            pass
        time.sleep(1)
        print("written", flush=True)
        sys.exit(6)
    ready()
    while not termination.requested:
        pass
print("saved", flush=True)
sys.exit(5)
"""


def run(grace: float, scene: str, number: int) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(grace), scene], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_loop_has_time_to_save(number: int) -> None:
    assert run(60, "loop", number) == (5, "saved\n")


def test_a_loop_that_hangs_is_ended_when_the_grace_is_over() -> None:
    assert run(0.2, "stuck", signal.SIGTERM) == (143, "")


@pytest.mark.parametrize(
    ("has_peers", "steps", "current", "facts"),
    [
        (False, [0.1], 31, ("the step has lasted 31 s", "a smaller batch size")),
        (False, [], 31, ("the step has lasted 31 s", "a smaller batch size")),
        (True, [25.0, 0.1], 31, ("takes up to 25 s", "a smaller batch size")),
        (True, [], 31, ("first step has not ended", "31 s")),
        (True, [0.1], 31, ("peers do not answer",)),
        (True, [0.1], None, ("not written in time",)),
    ],
)
def test_a_checkpoint_that_comes_too_late_has_the_cause_that_was_measured(
    has_peers: bool,
    steps: list[float],
    current: float | None,
    facts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    termination = Termination(grace=20)
    termination.has_peers = has_peers
    for seconds in steps:
        termination.begin_step()
        now += seconds
        termination.end_step()
    if current is not None:
        termination.begin_step()
        now += current
    assert_says(termination.why_too_late(), *facts)


@pytest.mark.parametrize(
    ("steps", "facts"),
    [
        (
            [90.0, 31.0, 31.0],
            (
                "a step takes 31 s",
                "longer than the grace period of 20 s",
                "without a checkpoint",
                "a smaller batch size",
                "a longer --termination-grace",
            ),
        ),
        ([90.0, 0.1], ()),
    ],
)
def test_steps_that_leave_no_time_to_save_are_announced(
    steps: list[float],
    facts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    termination = Termination(grace=20)
    for seconds in steps:
        termination.begin_step()
        now += seconds
        termination.end_step()
    assert len(caplog.messages) == (1 if facts else 0)
    assert_says("".join(caplog.messages), *facts)


def test_outside_of_the_loop_there_is_nothing_to_save() -> None:
    assert run(60, "outside", signal.SIGTERM) == (143, "")


def test_without_the_others_nothing_is_waited_for() -> None:
    assert run(600, "hopeless", signal.SIGTERM) == (143, "")


def test_a_checkpoint_that_is_being_written_needs_nobody() -> None:
    assert run(600, "hopeless, but writing", signal.SIGTERM) == (6, "written\n")
