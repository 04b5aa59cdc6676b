"""What holds of every job in a chaos run, checked over the history when the run is over.

Each check is pure, and returns one sentence for each violation.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kind.chaos.history import JobState, LeaseState, PodState

LONGEST_WAIT_SECONDS = 60.0
"""A longer wait needs an explanation in the condition."""

LEADER_SECONDS = 120.0
"""Some operator leads again within this time, unless the API server is away."""

END_SECONDS = 600.0
"""All jobs end within this time after the last fault."""

UNEXPLAINED = (
    "",
    "waiting for nodes for all members",
    "all members have nodes; waiting for them to run",
)
"""Messages that are right for the first minute, and no explanation after it."""

STEPS = (
    "",
    "listing the images of the source",
    "writing the shards",
    "verifying the shards",
)
"""Messages of a preparation; without a pod that runs, they are no explanation either."""


@dataclass(frozen=True)
class Outage:
    """A time in which a node was off or its kubelet stopped, and some minutes after it.

    Meanwhile the API server cannot know whether the node's programs run.
    """

    node: str
    start: float
    end: float


Span = tuple[float, float]
"""The start and the end of something."""


@dataclass(frozen=True)
class Run:
    """A chaos run that is over.

    Attributes:
        pods: All states of pods, by time.
        jobs: All states of jobs, by time.
        outages: Of nodes.
        leases: All states of the operator's Lease, by time.
        silences: Of the API server.
        own_crashes: Namespaces of the jobs whose programs were made to fail for good.
        last_fault: When the last fault ended.
        namespaces: Of all jobs.
    """

    pods: Sequence[PodState]
    jobs: Sequence[JobState]
    outages: Sequence[Outage]
    leases: Sequence[LeaseState]
    silences: Sequence[Span]
    own_crashes: Collection[str]
    last_fault: float
    namespaces: Collection[str]


def violations(run: Run) -> dict[str, list[str]]:
    """Return the violations of each invariant, by its sentence."""
    # Nobody can write a condition meanwhile.
    absences = merged([*run.silences, *leaderless(run.leases)])
    return {
        "At most one attempt of a job writes": overlaps(run.pods, run.outages),
        "A job fails only because its own members crash": failures(run.jobs, run.own_crashes),
        "No pod requests a GPU before the dataset is sealed": early_gpus(run.pods, run.jobs),
        f"The condition explains each wait over {LONGEST_WAIT_SECONDS:.0f} s": [
            *silent_waits(run.jobs, absences),
            *silent_preparations(run.jobs, run.pods, absences),
        ],
        f"An operator leads again within {LEADER_SECONDS:.0f} s": late_leaders(
            run.leases, run.silences
        ),
        "Every job ends within 10 minutes of the last fault": late_ends(
            run.jobs, run.last_fault, run.namespaces
        ),
    }


def overlaps(pods: Iterable[PodState], outages: Sequence[Outage]) -> list[str]:
    """Find attempts whose programs ran while those of another attempt of the job did."""
    running: dict[str, dict[str, PodState]] = defaultdict(dict)
    found = {}
    for state in pods:
        if state.attempt is None:
            continue
        ours = running[state.namespace]
        ours.pop(state.uid, None)
        if state.is_gone or not state.runs:
            continue
        for other in ours.values():
            nodes = {state.node, other.node}
            if other.attempt != state.attempt and not _is_out(nodes, state.time, outages):
                found[state.uid] = f"{state.namespace}: {state.name} ran beside {other.name}"
        ours[state.uid] = state
    return list(found.values())


def _is_out(nodes: Collection[str], time: float, outages: Iterable[Outage]) -> bool:
    return any(item.node in nodes and item.start <= time <= item.end for item in outages)


def failures(jobs: Iterable[JobState], own_crashes: Collection[str]) -> list[str]:
    """Find jobs that failed although their programs were never made to fail for good."""
    failed = {state.namespace: state.failure for state in jobs if state.failure}
    return [f"{name}: {failed[name]}" for name in failed if name not in own_crashes]


def early_gpus(pods: Iterable[PodState], jobs: Iterable[JobState]) -> list[str]:
    """Find pods with GPUs of a job whose dataset was not sealed when they were first seen."""
    sealed_at: dict[str, float] = {}
    for job in jobs:
        if job.is_sealed:
            sealed_at.setdefault(job.namespace, job.time)
    first: dict[str, PodState] = {}
    for pod in pods:
        if pod.gpus:
            first.setdefault(pod.uid, pod)
    # The watches of pods and jobs have threads of their own, so the first may be a moment ahead.
    return [
        f"{pod.namespace}: {pod.name} requested GPUs before the dataset was sealed"
        for pod in first.values()
        if pod.time + 1 < sealed_at.get(pod.namespace, float("inf"))
    ]


def leaderless(leases: Iterable[LeaseState]) -> list[Span]:
    """Return the times in which no operator held the Lease."""
    spans = []
    for state, following in itertools.pairwise(leases):
        end = state.time + (state.seconds if state.holder else 0.0)
        if end < following.time:
            spans.append((end, following.time))
    return merged(spans)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the same times, by their start and without overlaps."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def late_leaders(leases: Iterable[LeaseState], silences: Sequence[Span]) -> list[str]:
    """Find times in which no operator led for too long."""
    lengths = [_without(span, merged(silences)) for span in leaderless(leases)]
    return [f"no operator led for {length:.0f} s" for length in lengths if length > LEADER_SECONDS]


def silent_waits(jobs: Sequence[JobState], absences: Sequence[Span] = ()) -> list[str]:
    """Find waits of over a minute that no condition explains, by their last message."""
    by_job: dict[str, list[JobState]] = defaultdict(list)
    for state in jobs:
        by_job[state.namespace].append(state)
    found = []
    for namespace, states in by_job.items():
        begins: float | None = None
        for state, following in itertools.pairwise(states):
            is_silent = state.is_waiting and state.message in UNEXPLAINED
            begins = (begins or state.time) if is_silent else None
            if begins is None:
                continue
            seconds = _without((begins, following.time), absences)
            if seconds > LONGEST_WAIT_SECONDS:
                found.append(
                    f"{namespace}: {seconds:.0f} s in {state.phase} from second "
                    f"{begins - jobs[0].time:.0f}: {state.message!r}"
                )
                begins = None
    return found


def _without(span: Span, absences: Iterable[Span]) -> float:
    """Return the seconds of a time, without those of the others, which do not overlap."""
    start, end = span
    return end - start - sum(max(0.0, min(end, till) - max(start, at)) for at, till in absences)


def silent_preparations(
    jobs: Iterable[JobState], pods: Iterable[PodState], absences: Sequence[Span] = ()
) -> list[str]:
    """Find preparations without a pod that runs and without a reason, for over a minute."""
    states: list[JobState | PodState] = [*jobs, *(pod for pod in pods if pod.attempt is None)]
    running: dict[str, set[str]] = defaultdict(set)
    latest: dict[str, JobState] = {}
    begins: dict[str, float] = {}
    found = []
    for state in sorted(states, key=lambda state: state.time):
        name = state.namespace
        if name in begins:
            seconds = _without((begins[name], state.time), absences)
            if seconds > LONGEST_WAIT_SECONDS:
                del begins[name]
                found.append(f"{name}: {seconds:.0f} s without a pod: {latest[name].message!r}")
        if isinstance(state, JobState):
            latest[name] = state
        elif state.runs and not state.is_gone:
            running[name].add(state.uid)
        else:
            running[name].discard(state.uid)
        job = latest.get(name)
        is_silent = job is not None and job.phase == "Preparing" and job.message in STEPS
        if not is_silent or running[name]:
            begins.pop(name, None)
        else:
            begins.setdefault(name, state.time)
    return found


def late_ends(
    jobs: Iterable[JobState], last_fault: float, namespaces: Collection[str]
) -> list[str]:
    """Find jobs that did not end in time after the last fault."""
    ended: dict[str, float] = {}
    for state in jobs:
        if state.has_ended:
            ended.setdefault(state.namespace, state.time)
    limits: Mapping[str, float] = {name: ended.get(name, float("inf")) for name in namespaces}
    return [
        f"{name} did not end within {END_SECONDS:.0f} s of the last fault"
        for name, end in limits.items()
        if end > last_fault + END_SECONDS
    ]
