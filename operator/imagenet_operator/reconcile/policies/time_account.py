"""Account of time: each second of a job belongs to one phase, over all attempts.

The operator knows the time outside of the training program from the status. Within an attempt, the
worker of rank 0 reports its own account in its metrics, and in its termination message. The status
records both; each reconcile adds the time since the record. So a reconcile may be repeated or
skipped, and time in which no operator ran is counted afterwards.

Rank 0's time that it has not reported is `unreported`: since the last sample, in an unfinished
step, or a program without metrics. So the phases always add up to the wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.reconcile.policies import elastic, job_status, members, shared_dataset
from imagenet_operator.reconcile.sample import Sample
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status, TrainingStatus
from imagenet_spec.resource.time_status import (
    WORKER_PHASES,
    JobPhase,
    JobSeconds,
    TimeStatus,
    WorkerSeconds,
    seconds_of,
    worker_seconds,
)

FETCHING: Final = "Fetching"
"""The reason of DatasetReady while the source's files are fetched."""

_HOLDS_GPUS: Final = ("pulling", "training")

_REDUCIBLE: Final = (
    *(
        "unreported",
        "pulling",
        "queued",
        "queueing",
        "restarting",
        "preparing",
        "fetching",
        "suspended",
    ),
    *WORKER_PHASES,
)
"""Phases from which time is taken that rank 0 claims beyond the wall time, in this order."""

_CLOCK_SKEW: Final = timedelta(seconds=60)
"""How much longer than its attempt an account may be."""


def counted(job: ImageNetJob, status: Status, sample: Sample | None, now: datetime) -> Status:
    """Return a new status with the time until now."""
    if job.status.completion_time is not None:
        return status
    if status.training is not None:
        status = status.model_copy(update={"training": with_report(status.training, sample, now)})
    before = job.status.time or _opened(job, now)
    until = status.completion_time or now
    elapsed = max(0.0, (until - (before.counted_until or until)).total_seconds())
    recorded, asked = job.status.training, job.spec.training.workers
    workers = None if recorded is None else recorded.workers
    gpus = asked.gpus * (asked.replicas if workers is None else workers)
    held = elapsed * gpus if before.phase in _HOLDS_GPUS else 0.0
    phases = _added(before, elapsed, _newly_reported(job.status, status))
    time = TimeStatus(
        phases=JobSeconds.model_validate(phases),
        goodput=goodput(phases, lost_steps(status)),
        gpu_hours=round((before.gpu_hours or 0.0) + held / 3600, 4),
        phase=phase_of(job, status),
        counted_until=until,
    )
    return status.model_copy(update={"time": time})


def paused(time: TimeStatus, at: datetime) -> TimeStatus:
    """Return the account of a job whose operator has ended: from then on it is suspended.

    `at` is when the operator or a program of the job last did something.
    """
    until = max(time.counted_until or at, at.replace(microsecond=0))
    elapsed = (until - (time.counted_until or until)).total_seconds()
    phases = _added(time, elapsed, {})
    update = {
        "phases": JobSeconds.model_validate(phases),
        "goodput": goodput(phases),
        "phase": "suspended",
        "counted_until": until,
    }
    return time.model_copy(update=update)


def goodput(phases: dict[str, float], lost: float = 0.0) -> float | None:
    """Return the fraction of the time that made progress which was kept; None without any time.

    `lost` are seconds of steps that no checkpoint has kept, and that no attempt trains again.
    """
    whole = sum(phases.values()) - phases.get("suspended", 0.0)
    kept = max(0.0, phases.get("stepping", 0.0) - lost)
    return round(kept / whole, 4) if whole > 0 else None


def lost_steps(status: Status) -> float:
    """Return the seconds of the steps that a failed job has lost, as far as rank 0 reported."""
    training = status.training
    if training is None or not job_status.holds(status.conditions, "Failed"):
        return 0.0
    return training.unsaved_seconds or 0.0


def phase_of(job: ImageNetJob, status: Status) -> JobPhase | None:
    """Return the phase that a job with this status is in; None once it has ended."""
    if status.completion_time is not None:
        return None
    training = status.training
    # The condition follows when the last pod is gone.
    is_ending = job.spec.run_policy.suspend and (training is None or training.outcome is not None)
    if is_ending or job_status.holds(status.conditions, "Suspended"):
        return "suspended"
    if job_status.is_queued(status):
        return "queued"
    if training is None:
        if status.preparation is None or status.preparation.since is None:
            return "queueing"
        ready = job_status.reason_of(status.conditions, "DatasetReady")
        if ready == shared_dataset.REASON:
            return "queueing"
        return "fetching" if ready == FETCHING else "preparing"
    if training.outcome is not None:
        is_restart = job_status.holds(status.conditions, "Restarting")
        grows = training.outcome.reason == elastic.GROWING
        if training.outcome.reason == members.EVICTED:
            return "queued"
        return "restarting" if is_restart or grows else "queueing"
    if training.bound_time is None:
        return "queueing"
    return "pulling" if training.running_time is None else "training"


def _opened(job: ImageNetJob, now: datetime) -> TimeStatus:
    created = job.metadata.creation_timestamp
    begin = now if created is None else min(created, now)
    if job.status.start_time is None:
        return TimeStatus(phase="queueing", counted_until=begin)
    # An older operator kept no account.
    begin = min(begin, job.status.start_time)
    past = {"unreported": (now - begin).total_seconds()}
    return TimeStatus(
        phases=JobSeconds.model_validate(past), phase=phase_of(job, job.status), counted_until=now
    )


def with_report(training: TrainingStatus, sample: Sample | None, now: datetime) -> TrainingStatus:
    """Return an attempt with the newest account of its rank 0.

    An account that is longer than the attempt is ignored: a pod is not trusted.
    """
    results = (job_status.result_of(member) for member in training.members)
    left = (found.seconds for found in results if found is not None and found.seconds)
    reported: Mapping[str, float] | None = next(left, None)
    if reported is None and sample is not None and sample.attempt == training.attempt:
        reported = sample.seconds
    found = worker_seconds(reported or {})
    age = now - (training.start_time or now) + _CLOCK_SKEW
    if not found or sum(found.values()) > age.total_seconds():
        return training
    return training.model_copy(update={"seconds": WorkerSeconds.model_validate(found)})


def _newly_reported(former: Status, status: Status) -> dict[str, float]:
    training, recorded = status.training, former.training
    if training is None or training.seconds is None:
        return {}
    new, old = seconds_of(training.seconds), {}
    if recorded is not None and recorded.attempt == training.attempt and recorded.seconds:
        old = seconds_of(recorded.seconds)
    # Another worker may turn out to be rank 0, so a phase may have decreased.
    return {name: new.get(name, 0.0) - old.get(name, 0.0) for name in new.keys() | old.keys()}


def _added(before: TimeStatus, elapsed: float, reported: dict[str, float]) -> dict[str, float]:
    """Return the seconds by phase after an interval, with the same sum as the wall time."""
    phases = seconds_of(before.phases)
    whole = sum(phases.values()) + elapsed
    for name, seconds in reported.items():
        phases[name] = round(max(0.0, phases.get(name, 0.0) + seconds), 1)
    rest = "unreported" if before.phase in ("training", None) else before.phase
    phases[rest] = 0.0
    missing = round(whole - sum(phases.values()), 1)
    phases[rest] = max(0.0, missing)
    # Rank 0 may run before the operator has seen that all members do.
    excess = max(0.0, -missing)
    for name in _REDUCIBLE:
        taken = min(excess, phases.get(name, 0.0))
        if taken:
            phases[name], excess = round(phases[name] - taken, 1), excess - taken
    return {name: seconds for name, seconds in phases.items() if seconds}
