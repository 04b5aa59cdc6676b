"""On this machine: jobs under `imagenetctl run`. All files stay under build/bench/recovery."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.recovery.parts import Timestamps, durations, figures_of
from benchmarks.scaling.jobs import CLAIM, point

BENCH = Path("build/bench/recovery").resolve()

_WAIT_SECONDS = 300.0
_POLL_SECONDS = 0.01

Found = TypeVar("Found")


@dataclass(frozen=True)
class Member:
    """A process of a pod.

    Attributes:
        pid: The process that trains: the last of the pod's processes in the order of starts.
        address: Where it serves its metrics.
    """

    pid: int
    address: str


def recovery(strategy: str, name: str) -> dict[str, float]:
    """Train with a strategy, kill its last worker, and return the seconds of each part."""
    shutil.rmtree(BENCH, ignore_errors=True)
    (BENCH / "volumes" / CLAIM).mkdir(parents=True)
    manifest = point(strategy, 2, 1000, name).manifest
    with _running(manifest, BENCH / "events.jsonl") as events:
        first = _wait(lambda: _members(name, 0).get("worker-0"), "the first attempt")
        last = _wait(lambda: _members(name, 0).get("worker-1"), "its last worker")
        _wait(lambda: _figures(first).get("imagenet_train_epoch", 0) >= 1, "its second epoch")
        killed = time.time()
        os.kill(last.pid, signal.SIGKILL)
        ended = _wait(lambda: None if _members(name, 0) else time.time(), "the end of its pods")
        next_first = _wait(lambda: _members(name, 1).get("worker-0"), "the second attempt")
        figures = _wait(lambda: _after_a_step(next_first), "its first step")
        stepped = time.time()
        ends = _wait(lambda: event_times(events.read_text(), killed), "the events")
        noticed, restarted, running = ends
        # On this machine, a pod that is there is a process that has started.
        times = Timestamps(killed, ended, noticed, restarted, restarted, running, stepped)
        return durations(times, figures)


@contextmanager
def _running(manifest: Mapping[str, Any], events: Path) -> Iterator[Path]:
    """Run a job in the block; yields the file with its events."""
    program = Path(sys.executable).with_name("imagenetctl")
    command = [str(program), "run", "-", "--workdir", str(BENCH), "--output", "json"]
    with events.open("w") as output, (BENCH / "job.json").open("w+") as given:
        json.dump(manifest, given)
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield events
        finally:
            process.terminate()
            process.wait()


def event_times(lines: str, killed: float) -> tuple[float, float, float] | None:
    """Return when the attempt ended, the next one got its pods, and these ran; None before that.

    Args:
        lines: What `imagenetctl run --output json` has printed.
        killed: When the worker was killed; events before it do not count.
    """
    found: dict[str, float] = {}
    for line in lines.splitlines():
        event = json.loads(line)
        if event.get("type") != "event":
            continue
        moment = datetime.fromisoformat(event["time"]).astimezone(UTC).timestamp()
        if moment >= killed:
            found.setdefault(event["reason"], moment)
    if not {"Restarting", "AttemptStarted", "Running"} <= found.keys():
        return None
    return found["Restarting"], found["AttemptStarted"], found["Running"]


def _members(job: str, attempt: int) -> dict[str, Member]:
    """Return the training processes of an attempt, by role and index."""
    found: dict[str, Member] = {}
    for process in sorted(int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()):
        try:
            text = Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        variables = dict(item.partition("=")[::2] for item in text.split("\0"))
        start = f"{job}-r{attempt}-"
        pod = variables.get("POD_NAME", "")
        if pod.startswith(start):
            address = f"{variables['POD_IP']}:{variables['IMAGENET_METRICS_PORT']}"
            found[pod.removeprefix(start)] = Member(process, address)
    return found


def _figures(member: Member) -> dict[str, float]:
    """Return the metrics of a worker by name, and its seconds by phase; empty before it serves."""
    try:
        with urllib.request.urlopen(f"http://{member.address}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return figures_of(text)


def _after_a_step(member: Member) -> dict[str, float]:
    found = _figures(member)
    return found if found.get("imagenet_train_step_seconds_count", 0) >= 1 else {}


def _wait(found: Callable[[], Found | None], what: str) -> Found:
    """Ask until there is an answer, and return it."""
    limit = time.monotonic() + _WAIT_SECONDS
    while not (answer := found()):
        if time.monotonic() > limit:
            raise TimeoutError(f"{what} is not there after {_WAIT_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    return answer
