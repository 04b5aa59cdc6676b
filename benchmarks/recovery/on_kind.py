"""On a kind cluster with the stories' images and values: jobs whose pods are on two nodes.

The nodes are containers of this machine, so all times are of one clock. The cluster is made by
tests/kind's harness and deleted after the run. Where `$IMAGENET_KIND_CLUSTER` names one, made by
`tests/kind/run.py up`, that one is used.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from benchmarks.recovery import beside_jobset
from benchmarks.recovery.parts import Place, Timestamps, durations, figures_of
from benchmarks.scaling import on_kind, pods

from imagenet_operator.manifests.names import CONTAINER
from imagenet_spec.names import IMAGENET_OUTPUT
from kind import run
from kind.cluster import Cluster, existing
from kind.environment import prepare
from kind.stories.namespace import ATTEMPT, OF_JOB, StoryNamespace, is_running
from support.processes import wait_until

NAME = "imagenetjob-bench-recovery"
NAMESPACE = "bench-recovery"
WORKERS = 2
EPOCHS = 1000
"""More than a job trains until it is deleted."""

KILLED = "killed"
"""The file on the claim with the time of the kill."""

KILL = f"date +%s.%N > ${IMAGENET_OUTPUT}/{KILLED} && kill -KILL $(cat /proc/1/task/1/children)"
"""Notes the time, and kills the process that trains, which process 1 has started."""

STARTED = """
import os, time, urllib.request
address = os.environ["POD_IP"] + ":" + os.environ["IMAGENET_METRICS_PORT"]
metrics = urllib.request.urlopen("http://" + address + "/metrics", timeout=5).read().decode()
ticks = open("/proc/1/stat").read().rpartition(")")[2].split()[19]
age = float(open("/proc/uptime").read().split()[0]) - int(ticks) / os.sysconf("SC_CLK_TCK")
print(time.time() - age)
print(metrics)
"""
"""Runs in a worker's pod. Prints when its process 1 started, and its metrics."""


class PodTimes:
    """The pods of a job's first two attempts, and when they came and went.

    Args:
        job: The job's name.
        clock: Gives seconds since the epoch.

    Attributes:
        noticed: The operator deletes the pods of the first attempt.
        ended: The last of them has ended, or is gone.
        restarted: The second attempt has as many.
    """

    def __init__(self, job: str, clock: Callable[[], float] = time.time) -> None:
        self._worker, self._clock = f"{job}-r1-worker-0", clock
        self._size = 0
        self.noticed: float | None = None
        self.ended: float | None = None
        self.restarted: float | None = None

    def see(self, found: Mapping[str, Mapping[str, Any]]) -> bool:
        """Note what has changed; return whether the first worker of the second attempt runs."""
        now = self._clock()
        first, second = (
            [pod for pod in found.values() if pod["metadata"]["labels"].get(ATTEMPT) == number]
            for number in ("0", "1")
        )
        self._size = max(self._size, len(first))
        is_deleted = any("deletionTimestamp" in pod["metadata"] for pod in first)
        if self.noticed is None and (is_deleted or len(first) < self._size):
            self.noticed = now
        if self.ended is None and all(_has_ended(pod) for pod in first):
            self.ended = now
        if self.restarted is None and len(second) == self._size:
            self.restarted = now
        return self.restarted is not None and is_running(dict(found[self._worker]))


def _has_ended(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


class Bench:
    """Measures in one namespace.

    Args:
        story: The namespace, and the folder that its pods share.
    """

    def __init__(self, story: StoryNamespace) -> None:
        self._story = story

    def recovery(self, strategy: str, name: str) -> dict[str, float]:
        """Train with a strategy, kill its last worker, and return the seconds of each part."""
        kubectl = self._story.kubectl
        manifest = pods.job(name, EPOCHS, threads=1, strategy=strategy, workers=WORKERS)
        # The log then has the time of each step.
        manifest["spec"]["training"]["extraArgs"] = ["--disp-batches", "1"]
        kubectl.apply(manifest)
        self._story.wait_for_attempt(0, name)
        first_epoch = f"jobs/{name}-*/attempts/r0/checkpoints/epoch-0001-*"
        wait_until(lambda: list(self._story.data.glob(first_epoch)), f"the first epoch of {name}")
        times = PodTimes(name)
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(self._kill, f"{name}-r0-worker-{WORKERS - 1}")
            kubectl.wait_until("pods", times.see, selector=f"{OF_JOB}={name}")
            killed = killing.result()
        stepped = self._first_step(name)
        command = ("--", "python", "-c", STARTED)
        answer = kubectl("exec", f"{name}-r1-worker-0", f"--container={CONTAINER}", *command)
        kubectl.delete("imagenetjobs", name)
        self._story.wait_for_no_children(name)
        return measured(killed, times, stepped, answer)

    def _first_step(self, name: str) -> float:
        """Return when rank 0 of the second attempt had trained its first step, by its log."""
        log = f"jobs/{name}-*/attempts/r1/metrics.jsonl"

        def steps() -> list[float]:
            lines = [line for path in self._story.data.glob(log) for line in path.open()]
            events = [json.loads(line) for line in lines if line.endswith("\n")]
            return [event["time"] for event in events if event["event"] == "progress"]

        return wait_until(steps, f"the first step of {name}")[0]

    def _kill(self, pod: str) -> float:
        """Kill the program that trains in a pod, and return when."""
        command = ("--", "sh", "-c", KILL)
        # The shell may end with the container.
        said = self._story.kubectl("exec", pod, f"--container={CONTAINER}", *command, check=False)
        noted = self._story.data / KILLED
        assert noted.exists(), said
        killed = float(noted.read_text())
        noted.unlink()
        return killed


def measured(killed: float, times: PodTimes, stepped: float, answer: str) -> dict[str, float]:
    """Return the seconds of each part.

    Args:
        killed: The time of the kill.
        times: Of both attempts.
        stepped: The time of the first step.
        answer: What STARTED has printed.
    """
    first_line, _, metrics = answer.partition("\n")
    started = float(first_line)
    assert times.noticed and times.ended and times.restarted
    started = max(started, times.restarted)
    stamps = Timestamps(
        killed=killed,
        ended=times.ended,
        noticed=times.noticed,
        restarted=times.restarted,
        started=started,
        running=started,
        stepped=stepped,
    )
    return durations(stamps, figures_of(metrics))


@contextmanager
def bench() -> Iterator[Place]:
    """Give a namespace to measure in, on a cluster; one of the run's own is gone at the end."""
    with cluster() as made, on_kind.namespace(made, NAMESPACE) as story:

        def beside(runs: int) -> str:
            beside_jobset.install(made)
            return beside_jobset.compare(story, runs)

        yield Place(Bench(story).recovery, beside)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Give a cluster with the images of all strategies and the operator on it."""
    if os.environ.get("IMAGENET_KIND_CLUSTER"):
        yield existing()
        return
    environment = prepare()
    run.build_images(environment)
    made = Cluster(NAME, environment)
    try:
        made.create()
        run.load(made)
        run.define_monitors(made)
        run.install(made)
        yield made
    finally:
        made.delete()
