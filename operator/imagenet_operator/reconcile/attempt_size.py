"""The number of workers of an attempt: what `policies.elastic` decides from, and its record.

A job without `minReplicas` always has `replicas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from imagenet_operator.manifests import attempt as builder
from imagenet_operator.manifests import labels, worker
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import elastic, gang, waiting
from imagenet_operator.reconcile.policies.gang import Demand
from imagenet_operator.reconcile.types import (
    Capacity,
    Charge,
    End,
    Manifest,
    MemberPod,
    Observed,
    Phase,
    ReconcileSettings,
)
from imagenet_spec.resource import ImageNetJob, elastic_workers
from imagenet_spec.resource.status import MemberStatus, Status, TrainingStatus


def limit(context: ReconcileContext, training: TrainingStatus) -> gang.Limit:
    """Return how long an attempt may take until all of its members are bound."""
    return gang.Limit(
        context.job.spec.schedule_timeout_seconds,
        can_shrink=_is_elastic(context)
        and elastic.workers_of(training) > _counts(context)[0]
        and not gang.is_held_by_another(context.attempt.members),
    )


def is_recorded(context: ReconcileContext) -> bool:
    """Whether the status has the workers of the next attempt.

    Requests that create its pods may arrive late. So all of them must be for the same number, also
    those of an operator that has ended. The first attempt always has the largest number.
    """
    training = context.status.training
    if training is None or not _is_elastic(context):
        return True
    return training.next_workers in _counts(context)


def recorded(context: ReconcileContext) -> int:
    """Return the workers of the next attempt."""
    training, counts = context.status.training, _counts(context)
    if training is None or training.next_workers not in counts:
        return counts[-1]
    return training.next_workers


def choose(context: ReconcileContext, number: int) -> None:
    """Choose the workers of the next attempt, which has this number, and record them."""
    former, counts = context.training, _counts(context)
    choice = elastic.next_workers(counts, former, _shortage(context, number, 0), context.now)
    before, changes = elastic.workers_of(former), former.worker_changes or ()
    # The end of an attempt that had to grow was a change already.
    has_counted = former.outcome is not None and former.outcome.reason == elastic.GROWING
    if choice.workers != before and not has_counted:
        changes = (*changes, context.now)
    held_until = context.now + elastic.HOUR if choice.is_doubtful else former.growth_after
    context.update_training(
        next_workers=choice.workers,
        worker_changes=_kept(context, changes),
        growth_after=held_until,
    )
    most = counts[-1]
    found = f"{choice.workers} workers" if choice.workers == most else _of(choice.workers, most)
    if choice.workers < before:
        why = f": {choice.why}" if choice.why else ""
        context.record_warning("Shrunk", f"Shrunk to {found}{why}")
    elif choice.workers > before:
        context.record_event("Grown", f"Grown to {found}")
    context.requeue_now()


def depends_on_capacity(job: ImageNetJob, observed: Observed) -> bool:
    """Whether the next decision may start an attempt whose workers depend on the free capacity."""
    training = job.status.training
    return (
        elastic_workers.is_elastic(job.spec.training)
        and not job.spec.run_policy.suspend
        and training is not None
        and training.outcome is not None
        and training.next_workers is None
        and not any(attempt.unfinished for attempt in observed.attempts.values())
    )


def is_shrunk(job: ImageNetJob) -> bool:
    """Whether an attempt runs with fewer workers than it may have."""
    training = job.status.training
    return (
        elastic_workers.is_elastic(job.spec.training)
        and training is not None
        and elastic.may_grow(elastic_workers.worker_counts(job.spec.training), training)
    )


def may_grow(context: ReconcileContext) -> bool:
    """Whether the attempt would go on with more workers if there was room for them."""
    return (
        not context.unsupported
        and _is_elastic(context)
        and elastic.may_grow(_counts(context), context.training)
    )


def growth(context: ReconcileContext) -> End | None:
    """Return the end of the attempt if the job goes on with more workers; None otherwise."""
    if not may_grow(context):
        return None
    training = context.training
    most = elastic_workers.policy(context.job.spec.training).max_changes_per_hour
    shortage = _shortage(context, training.attempt, running=elastic.workers_of(training))
    return elastic.growth(_counts(context), training, most, shortage, context.now)


def grows(job: ImageNetJob, after: Status) -> bool:
    """Whether a new status ends an attempt so that the job goes on with more workers."""
    former = job.status.training
    return former is not None and former.outcome is None and awaits_growth(job, after)


def awaits_growth(job: ImageNetJob, status: Status) -> bool:
    """Whether a job has ended an attempt to go on with more workers, and will start the next."""
    training = status.training
    outcome = None if training is None else training.outcome
    return (
        outcome is not None
        and outcome.reason == elastic.GROWING
        and status.completion_time is None
        and not job.spec.run_policy.suspend
    )


def further_pods(job: ImageNetJob, free: Capacity, settings: ReconcileSettings) -> list[Manifest]:
    """Return the workers that a job which grows will have beside those of its last attempt."""
    training = job.status.training
    assert training is not None
    before = elastic.workers_of(training)
    built = builder.build(job, training.attempt, settings.manifests)
    workers = [item for item in built if item["kind"] == "Pod" and _is_worker(item)]
    fitting = [
        count
        for count in elastic_workers.worker_counts(job.spec.training)
        if count > before
        if gang.shortage(list(map(gang.demand_of, workers[before:count])), free) is None
    ]
    return workers[before : max(fitting, default=before)]


def started(context: ReconcileContext, planned: tuple[MemberStatus, ...]) -> dict[str, Any]:
    """Return what the status of a new attempt records of its workers."""
    if not _is_elastic(context):
        return {}
    former = context.status.training
    return {
        "workers": _workers(planned),
        "worker_changes": None if former is None else former.worker_changes,
        "growth_after": None if former is None else former.growth_after,
    }


def cut_off(context: ReconcileContext) -> End:
    """Return the end of an attempt of which not all pods were created.

    If a quota refuses them, the same number would be refused again.
    """
    refusal = context.observed.refusal
    is_over_quota = (
        refusal is not None and waiting.refused(refusal).reason == waiting.QUOTA_EXCEEDED
    )
    if refusal is None or not is_over_quota or not limit(context, context.training).can_shrink:
        return gang.CUT_OFF
    message = f"{refusal.message}; the next attempt has fewer workers"
    return End(gang.OVER_QUOTA, message, Charge.WITHDRAWAL)


def ended(context: ReconcileContext, end: End, seen: Mapping[str, MemberPod]) -> dict[str, Any]:
    """Return what the status records of an attempt that ends, for the workers of the next one."""
    workers, changes = elastic.workers_of(context.training), context.training.worker_changes or ()
    if end.reason == gang.TIMED_OUT and _is_elastic(context):
        pods = [pod for pod in seen.values() if pod.role == worker.ROLE]
        return {"bound_workers": sum(pod.phase is not Phase.PENDING for pod in pods)}
    if end.reason == gang.OVER_QUOTA:
        # All other members are needed, whichever pods the quota happened to admit.
        others = len(context.training.members) - workers
        return {"bound_workers": max(0, min(len(seen) - others, workers))}
    if end.reason == elastic.GROWING:
        return {"worker_changes": _kept(context, (*changes, context.now))}
    return {}


def fewer_workers(context: ReconcileContext, planned: tuple[MemberStatus, ...]) -> str:
    """Return ``; 6 of 8 workers`` for an attempt with fewer workers than it may have."""
    workers, most = _workers(planned), _counts(context)[-1]
    return f"; {_of(workers, most)}" if _is_elastic(context) and workers < most else ""


def _of(workers: int, most: int) -> str:
    return f"{workers} of {most} workers"


def _counts(context: ReconcileContext) -> tuple[int, ...]:
    return elastic_workers.worker_counts(context.job.spec.training)


def _kept(context: ReconcileContext, changes: tuple[Any, ...]) -> tuple[Any, ...] | None:
    found = elastic.within_an_hour(changes, context.now)
    return found[-elastic_workers.CHANGES_MAXIMUM :] or None


def _is_elastic(context: ReconcileContext) -> bool:
    return elastic_workers.is_elastic(context.job.spec.training)


def _workers(planned: tuple[MemberStatus, ...]) -> int:
    return sum(member.role == worker.ROLE for member in planned)


def _shortage(context: ReconcileContext, number: int, running: int) -> elastic.Shortage | None:
    """Return what judges a number of workers by the free capacity; None if that is not known.

    `running` of them have nodes already, with all other members.
    """
    free = context.observed.free
    if free is None:
        return None

    @cache
    def members() -> tuple[list[Demand], list[Demand]]:
        built = builder.build(context.described, number, context.settings.manifests)
        pods = [item for item in built if item["kind"] == "Pod"]
        workers = [gang.demand_of(item) for item in pods if _is_worker(item)]
        return [gang.demand_of(item) for item in pods if not _is_worker(item)], workers

    @cache
    def shortage(count: int) -> str | None:
        helpers, workers = members()
        return gang.shortage([*([] if running else helpers), *workers[running:count]], free)

    return shortage


def _is_worker(pod: Manifest) -> bool:
    return bool(pod["metadata"]["labels"][labels.JOB_ROLE] == worker.ROLE)
