"""A chaos run on a kind cluster: twenty jobs, faults of every kind, invariants, two tables.

    python tests/kind/run.py chaos --minutes 90 --seed 1

Each group of faults has a thread, so that faults of different groups overlap. A run injects each
kind until all have their least number and the total is reached, or the time is over. Then the jobs
may end, and the history is checked.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kind.chaos import report
from kind.chaos.faults import FAULTS, Fault
from kind.chaos.history import History, JobState
from kind.chaos.invariants import END_SECONDS, Run, violations
from kind.chaos.jobs import ChaosJob, all_jobs
from kind.chaos.scene import Scene, poll, restore
from kind.cluster import Cluster
from kind.conftest import fresh_namespace
from kind.kubectl import KubectlError
from kind.stories import jobs
from kind.stories.namespace import StoryNamespace, make_digits, prepare_story
from support.tiny_dataset import write_dataset

PREFIX = "chaos-"

EPOCHS = 40
"""Of each job that trains: some minutes on a quiet machine."""

TRAINING_AT_ONCE = 2
"""Jobs that train at one time, on the two cores of a small machine."""

REST_SECONDS = {"api": 100.0, "nodes": 10.0, "operator": 30.0}
"""The mean time between two faults of a group that all jobs feel. A new leader may have to wait for
15 s until the Lease expires."""

SHORT_REST_SECONDS = 10.0
"""The mean time between two faults of any other group."""

QUIET_SECONDS = 20.0
"""From the first pods to the first fault."""


@dataclass(frozen=True)
class Plan:
    """What a run does, and when it has injected enough.

    Attributes:
        each: The least number of each kind of fault.
        total: The least number of all kinds.
        seconds: The longest time for them.
        seed: Of all choices.
        faults: The kinds.
        jobs: The jobs, in the order of their creation.
    """

    each: int
    total: int
    seconds: float
    seed: int = 0
    faults: Sequence[Fault] = FAULTS
    jobs: Sequence[ChaosJob] = field(default_factory=lambda: all_jobs(EPOCHS))


@dataclass
class Injections:
    """The faults so far, by kind: those with an effect, and those without."""

    observed: Counter[str] = field(default_factory=Counter)
    without_effect: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def are_enough(self, plan: Plan) -> bool:
        """Whether each kind has its least number, and the total is reached."""
        return self.observed.total() >= plan.total and all(
            self.observed[fault.name] >= plan.each for fault in plan.faults
        )

    def next_of(self, kinds: Sequence[Fault]) -> Fault:
        """Return the kind of a group that was tried least, so that none holds up the others."""
        tried = self.observed + self.without_effect
        return min(kinds, key=lambda fault: tried[fault.name])


def run(cluster: Cluster, plan: Plan) -> report.Outcome:
    """Run chaos on a cluster with the chart.

    Args:
        cluster: With the project's images and chart.
        plan: What is done.
    """
    with TemporaryDirectory() as made, History(cluster.kubeconfig, PREFIX) as history:
        digits = Path(made) / "digits"
        write_dataset(digits, train=600, validation=jobs.VALIDATED)
        scene = Scene(cluster, history, random.Random(plan.seed))
        for node in cluster.workers:
            scene.advertise_gpus(node)
        archive = Path(made) / jobs.ARCHIVE
        make_digits(archive)
        with namespaces(cluster, plan.jobs, digits, archive) as stories:
            begin = time.monotonic()
            injections = _inject(scene, stories, plan)
            last_fault = time.monotonic()
            _log(f"the last fault ended after {last_fault - begin:.0f} s")
            for job in plan.jobs:
                if not job.trains:
                    stories[job.name].release()
            _wait_for_ends(history, [PREFIX + job.name for job in plan.jobs])
            done = _over(scene, plan, last_fault)
    return report.Outcome(
        seed=plan.seed,
        seconds=last_fault - begin,
        kinds=[fault.name for fault in plan.faults],
        is_enough=injections.are_enough(plan),
        observed=injections.observed,
        without_effect=injections.without_effect,
        violations=violations(done),
        jobs={state.namespace: state for state in done.jobs},
    )


def _over(scene: Scene, plan: Plan, last_fault: float) -> Run:
    """Return the history of a run whose jobs had their time to end."""
    return Run(
        pods=list(scene.history.pods),
        jobs=list(scene.history.jobs),
        outages=scene.outages,
        leases=list(scene.history.leases),
        silences=scene.silences,
        own_crashes={PREFIX + job.name for job in plan.jobs if job.crashes},
        last_fault=last_fault,
        namespaces=[PREFIX + job.name for job in plan.jobs],
    )


@contextmanager
def namespaces(
    cluster: Cluster, specs: Iterable[ChaosJob], digits: Path, archive: Path
) -> Iterator[dict[str, StoryNamespace]]:
    """Make a namespace for each job, with its data; remove all of them after the block."""
    stories = {}
    with ExitStack() as opened:
        for spec in specs:
            kubectl = opened.enter_context(fresh_namespace(cluster, PREFIX + spec.name))
            story = prepare_story(cluster, kubectl)
            shutil.copytree(digits, story.data / jobs.DIGITS)
            # Jobs that prepare data write beside it, as another user.
            (story.data / jobs.DIGITS).parent.chmod(0o777)
            if spec.trains:
                shutil.copy(archive, story.data)
            stories[spec.name] = story
        yield stories


def _inject(scene: Scene, stories: dict[str, StoryNamespace], plan: Plan) -> Injections:
    """Create the jobs, and inject faults until it is enough."""
    for job in plan.jobs:
        if not job.trains:
            restore(partial(stories[job.name].kubectl.apply, job.manifest))
    injections, is_over = Injections(), threading.Event()
    groups = dict.fromkeys(fault.group for fault in plan.faults)
    poll(lambda: bool(scene.victims()), 300)
    time.sleep(QUIET_SECONDS)
    deadline = time.monotonic() + plan.seconds
    with ThreadPoolExecutor(1 + len(groups)) as pool:
        running = [
            pool.submit(_feed, scene, stories, plan.jobs, is_over),
            *(pool.submit(_group, scene, group, plan, injections, is_over) for group in groups),
        ]
        try:
            while time.monotonic() < deadline and not injections.are_enough(plan):
                done, _ = wait(running, timeout=1, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
        finally:
            is_over.set()
    for future in running:
        future.result()
    return injections


def _group(
    scene: Scene, group: str, plan: Plan, injections: Injections, is_over: threading.Event
) -> None:
    """Inject the faults of a group, one after the other, until the run is over."""
    kinds = [fault for fault in plan.faults if fault.group == group]
    rest = REST_SECONDS.get(group, SHORT_REST_SECONDS)
    while not is_over.is_set():
        with injections.lock:
            fault = injections.next_of(kinds)
        # Faults that other groups inject into the API server are not this one's.
        poll(lambda: scene.cluster.kubectl.raw("/readyz") == "ok", 120)
        try:
            seen = fault.inject(scene)
        except (KubectlError, subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            # What it acts upon may be gone: a program that has just ended, a pod, a node.
            _log(f"{fault.name}: {str(error).splitlines()[0] if str(error) else error!r}")
            seen = None
        with injections.lock:
            counted = injections.without_effect if seen is None else injections.observed
            counted[fault.name] += 1
            total = injections.observed.total()
        if seen is not None:
            _log(f"{total}: {fault.name}: {seen[0]}: {seen[1]}")
        is_over.wait(scene.random.uniform(0.5, 1.5) * rest)


def _feed(
    scene: Scene,
    stories: dict[str, StoryNamespace],
    specs: Sequence[ChaosJob],
    is_over: threading.Event,
) -> None:
    """Create the jobs that train, a few at a time, and all that are left when the faults end."""
    waiting = [spec for spec in specs if spec.trains]
    preparing = [spec for spec in specs if spec.name.startswith("prepares-")]
    live: list[str] = []
    while waiting:
        latest = scene.history.latest_jobs()
        live = [name for name in live if not _has_ended(latest.get(PREFIX + name))]
        while waiting and (len(live) < TRAINING_AT_ONCE or is_over.is_set()):
            spec = waiting.pop(0)
            restore(partial(stories[spec.name].kubectl.apply, spec.manifest))
            live.append(spec.name)
            if preparing:
                stories[preparing.pop(0).name].release("pack")
        is_over.wait(2)


def _has_ended(state: JobState | None) -> bool:
    return state is not None and state.has_ended


def _wait_for_ends(history: History, names: Sequence[str]) -> None:
    def all_ended() -> bool:
        latest = history.latest_jobs()
        return all(_has_ended(latest.get(name)) for name in names)

    poll(all_ended, END_SECONDS, 1.0)


def _log(text: str) -> None:
    print(f"chaos {time.strftime('%H:%M:%S')} {text}", flush=True)
