"""Decisions that need a live read.

`reconciler` decides from the caches, which lag a moment behind the API server. That is safe for a
decision about an object that is seen: every write names a UID or a resource version. It is not safe
for a decision about an object that is *not* seen: a pod that was just created looks as if it had
vanished. Such decisions are rare. The reconciler makes them again from live reads before it applies
any part of them. So a cache that lags costs a few requests and does no harm.
"""

from enum import IntEnum

from imagenet_operator.api.status import Status
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.reconcile.types import Decision


class ReadConsistency(IntEnum):
    """Where a view of a job was read from."""

    CACHED = 0
    """The job and its children are from the caches."""

    LIVE_JOB = 1
    """The job is from the API server, its children are from the caches."""

    LIVE_ALL = 2
    """The job and then its children are from the API server."""


def required(status: Status, decision: Decision) -> ReadConsistency:
    """Return the read consistency that a decision needs.

    Args:
        status: The recorded status.
        decision: The decision that the view led to.
    """
    after = decision.status
    if _ends(status, after) or _is_suspended(status, after) or _starts_again(status, decision):
        return ReadConsistency.LIVE_ALL
    if any(reference.kind == "Job" for reference in decision.delete) and not is_finished(status):
        return ReadConsistency.LIVE_ALL
    # The API server refuses a second create of one name, but not children of an outdated job. A
    # delete cannot be undone, and the cached job may hold a shorter time to live.
    is_about_job = decision.create or any(item.kind == objects.JOB.name for item in decision.delete)
    return ReadConsistency.LIVE_JOB if is_about_job else ReadConsistency.CACHED


def _ends(before: Status, after: Status) -> bool:
    """Whether the job, a step of its preparation, or an attempt ends, perhaps for an absence."""
    if is_finished(after) and not is_finished(before):
        return True
    if before.dataset != after.dataset:
        return True
    return after.training is not None and _is_lost(before, after)


def _is_suspended(before: Status, after: Status) -> bool:
    """Whether the job becomes Suspended, which means that no pod of it is left."""
    was = job_status.holds(before.conditions, "Suspended")
    return job_status.holds(after.conditions, "Suspended") and not was


def _is_lost(before: Status, after: Status) -> bool:
    assert after.training is not None
    former = None if before.training is None else before.training.outcome
    if after.training.outcome is not None and former is None:
        return True
    known = {
        member.name: member.phase
        for member in (() if before.training is None else before.training.members)
    }
    return any(
        member.phase == "Unknown" and known.get(member.name) != "Unknown"
        for member in after.training.members
    )


def _starts_again(before: Status, decision: Decision) -> bool:
    """Whether an attempt starts while pods of an earlier one may exist."""
    after = decision.status.training
    if after is None or before.training is None:
        return after is not None and after.attempt > 0
    return after.attempt != before.training.attempt
