"""Measures what a killed worker costs, in parts: from the kill to the next step that is trained.

    make bench-recovery                             # about 6 minutes on 2 cores
    .venv/bin/python -m benchmarks.recovery --strategies horovod:MXNet --runs 1

Prints Markdown. Each strategy trains under `imagenetctl run` with two workers, and the last worker
is killed with SIGKILL once rank 0 has trained an epoch. Every part is a difference of times on this
machine: of the kill, of the operator's events, of the last process of the attempt, of the first
step in the metrics of rank 0. Within the last part, rank 0's own account of time says what it did.
All files stay under build/bench/recovery.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.scaling.jobs import CLAIM, point
from prometheus_client.parser import text_string_to_metric_families

BENCH = Path("build/bench/recovery").resolve()
STRATEGIES = (
    "parameterServer:dist_sync,horovod:MXNet,multiWorkerMirrored,horovod:TensorFlow,"
    "distributedDataParallel"
)
PARTS = (
    *("noticed", "pods gone", "restarted", "running"),
    *("starting", "joining", "restoring", "data", "first step"),
)
"""The parts of a recovery, in the order of time.

`noticed` ends when the operator says that the attempt has ended, `pods gone` with its last process,
`restarted` with the pods of the next attempt, after the rest of the back-off, and `running` when
the operator has seen all members run. The rest is rank 0's own time from there. `data` is its wait
for the first batch.
"""

_DATA_WAIT = "imagenet_train_data_wait_seconds_sum"
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


@dataclass(frozen=True)
class Timestamps:
    """When the parts of a recovery ended, as seconds since the epoch.

    Attributes:
        killed: The kill of a worker.
        gone: The last process of its attempt was gone.
        noticed: The operator said that the attempt had ended.
        restarted: The next attempt got its pods.
        running: The operator saw all of them run.
        stepped: Rank 0 had trained a step.
    """

    killed: float
    gone: float
    noticed: float
    restarted: float
    running: float
    stepped: float


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="rounds")
    parser.add_argument("--strategies", default=STRATEGIES, help="of two workers")
    parsed = parser.parse_args()
    strategies = parsed.strategies.split(",")
    print(
        f"resnet-20, two workers on {len(os.sched_getaffinity(0))} cores ({platform.machine()}), "
        f"seconds, median of {parsed.runs} rounds.\n",
        flush=True,
    )
    found: dict[str, list[dict[str, float]]] = {name: [] for name in strategies}
    for number in range(parsed.runs):
        for strategy in strategies:
            found[strategy].append(recovery(strategy, f"bench-{number}"))
    print(table(found))


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the medians of each part as Markdown, with the median of the sums."""
    lines = [
        f"| strategy | {' | '.join(PARTS)} | kill to next step |",
        f"|---|{'--:|' * (len(PARTS) + 1)}",
    ]
    for strategy, runs in found.items():
        cells = [statistics.median(run[part] for run in runs) for part in PARTS]
        whole = statistics.median(sum(run.values()) for run in runs)
        lines.append(f"| {strategy} | {' | '.join(f'{cell:.2f}' for cell in (*cells, whole))} |")
    return "\n".join(lines)


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
        gone = _wait(lambda: None if _members(name, 0) else time.time(), "the end of its pods")
        next_first = _wait(lambda: _members(name, 1).get("worker-0"), "the second attempt")
        figures = _wait(lambda: _after_a_step(next_first), "its first step")
        stepped = time.time()
        ends = _wait(lambda: event_times(events.read_text(), killed), "the events")
        return durations(Timestamps(killed, gone, *ends, stepped), figures)


def durations(timestamps: Timestamps, figures: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each part, which add up to the time from the kill to the step.

    Args:
        timestamps: When the parts outside of the program ended.
        figures: Of rank 0 after its first step.
    """
    noticed, restarted, running = timestamps.noticed, timestamps.restarted, timestamps.running
    # The processes may end by themselves before the operator notices it.
    gone = min(max(timestamps.gone, noticed), restarted)
    own = {phase: figures.get(phase, 0.0) for phase in ("starting", "joining", "restoring")}
    # The programs start before the operator has seen that all of them run.
    own["starting"] = max(0.0, own["starting"] - (running - restarted))
    before = {"noticed": noticed - timestamps.killed, "pods gone": gone - noticed}
    before |= {"restarted": restarted - gone, "running": running - restarted, **own}
    rest = timestamps.stepped - timestamps.killed - sum(before.values())
    data = min(figures.get(_DATA_WAIT, 0.0), max(0.0, rest))
    return {**before, "data": data, "first step": rest - data}


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
    return {
        sample.labels.get("phase", sample.name)
        if sample.name == "imagenet_train_seconds_total"
        else sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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


if __name__ == "__main__":
    main()
