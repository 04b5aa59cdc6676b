"""The process beside a training: whatever it does, the training ends as it would without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_spec.events import Started, to_line
from imagenet_workloads.process import side_process
from support.processes import DEADLINE_SECONDS, is_running, wait_until

RUN = """
import os, sys, time
from imagenet_workloads.process import side_process
from imagenet_workloads.process.pid1 import run_in_child

flush, place, side, code = sys.argv[1:]
side_process.FLUSH_SECONDS = float(flush)
# In place of imagenet-track.
side_process.SideProcess.from_environment = classmethod(
    lambda cls, variables: cls([sys.executable, "-c", side, place], variables)
)

def train():
    while not os.path.exists(place + ".go"):
        time.sleep(0.01)
    return int(code)

sys.exit(run_in_child(train, None, dict(os.environ)))
"""
BEGIN = """
import os, signal, sys, time
def begun():
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
SIDES = {
    "dies": BEGIN + "begun(); os._exit(7)",
    "is killed": BEGIN + "begun(); os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": BEGIN + "signal.signal(signal.SIGTERM, signal.SIG_IGN); begun(); time.sleep(3600)",
    "is stopped": BEGIN + "begun(); os.kill(os.getpid(), signal.SIGSTOP)",
    "ends when asked": BEGIN
    + "signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); "
    + "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}); begun(); time.sleep(3600)",
    "cannot start": "no Python",
}


def begin(place: Path, side: str, code: int = 0, flush: float = 1.0) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RUN, str(flush), str(place), SIDES[side], str(code)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def side_of(place: Path) -> int:
    wait_until(place.exists, "the side process runs")
    return int(place.read_text())


def go(place: Path) -> None:
    place.with_name(f"{place.name}.go").touch()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("code", [0, 5])
def test_the_training_ends_as_without_it(side: str, code: int, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    process = begin(place, side, code)
    if side != "cannot start":
        pid = side_of(place)
    go(place)
    assert process.wait(60) == code
    if side != "cannot start":
        wait_until(lambda: not is_running(pid), "it has ended")


def test_it_may_send_the_rest_and_no_longer_than_it_takes(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    process = begin(place, "ends when asked", flush=3600)
    side_of(place)
    go(place)
    assert process.wait(60) == 0


def test_a_training_that_failed_waits_for_nothing(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    process = begin(place, "hangs", code=5, flush=3600)
    side_of(place)
    go(place)
    assert process.wait(60) == 5


def test_sigterm_ends_it_at_once_with_the_training_and_after_it(tmp_path: Path) -> None:
    during, after = tmp_path / "during", tmp_path / "after"
    process = begin(during, "hangs", flush=3600)
    pid = side_of(during)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    wait_until(lambda: not is_running(pid), "it has ended")

    process = begin(after, "hangs", flush=3600)
    pid = side_of(after)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    go(after)
    wait_until(lambda: children.read_text().split() == [str(pid)], "the training has ended")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    wait_until(lambda: not is_running(pid), "it has ended")


def test_it_has_the_lowest_priority(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    process = begin(place, "ends when asked")
    assert os.getpriority(os.PRIO_PROCESS, side_of(place)) == 19
    go(place)
    process.wait(60)


@pytest.mark.parametrize("text", [None, "", "no JSON", "{}"])
def test_without_arguments_there_is_none(text: str | None) -> None:
    variables = {} if text is None else {"IMAGENET_TRACKING": text}
    assert side_process.SideProcess.from_environment(variables) is None


def test_an_argument_that_no_process_can_have_starts_none() -> None:
    variables = {**os.environ, "IMAGENET_TRACKING": json.dumps(["--mlflow-experiment", "a\0b"])}
    found = side_process.SideProcess.from_environment(variables)
    assert found is not None
    found.kill()


def test_the_pods_variable_starts_imagenet_track(tmp_path: Path) -> None:
    """It follows a job's logs until the training has ended, and sends what is there."""
    log = tmp_path / "attempts" / "r0" / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(f"{to_line(Started(0, 1, 0, 0), 1.0)}\n")
    variables = {
        "IMAGENET_RESULTS": str(tmp_path),
        "IMAGENET_TRACKING": json.dumps(["--tensorboard"]),
    }
    program = (
        "import os, sys\n"
        "from imagenet_workloads.process import side_process\n"
        "from imagenet_workloads.process.pid1 import run_in_child\n"
        "side_process.FLUSH_SECONDS = 3600.0\n"
        "sys.exit(run_in_child(lambda: 0, None, dict(os.environ)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0
    (written,) = (tmp_path / "tensorboard").iterdir()
    assert b"brain.Event:2" in written.read_bytes()
