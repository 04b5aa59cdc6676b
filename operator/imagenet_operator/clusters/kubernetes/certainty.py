"""Which decisions may be made from a cache, and which need the API server's own word.

A cache is behind by a moment. That does no harm to a decision about what is seen, since every
write names the UID or the resource version that it means; it may harm one about what is *not* seen:
a pod that was just created looks vanished, a job that was just restarted looks idle. Such decisions
are rare, and are made again from live reads before anything of them is done. Then two operators
that overlap, or a cache that lags, cost a few requests and nothing else.
"""

from enum import IntEnum

from imagenet_operator.api.status import Status
from imagenet_operator.clusters.kubernetes import kinds
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.reconcile.types import Decision


class Certainty(IntEnum):
    """How sure a view of a job is."""

    CACHED = 0
    """The job and its children, as they were a moment ago."""

    JOB = 1
    """The job as it is now; its children as they were a moment ago."""

    ALL = 2
    """The job and its children as they are now."""


def needed(status: Status, decision: Decision) -> Certainty:
    """Return how sure the view has to be from which a decision is made.

    Args:
        status: What was recorded before.
        decision: What the view led to.
    """
    if _ends_something(status, decision.status) or _begins_again(status, decision):
        return Certainty.ALL
    if any(reference.kind == "Job" for reference in decision.delete) and not is_finished(status):
        return Certainty.ALL
    # What is created twice is refused once; but a job that has moved on must not get it at all. Nor
    # may one be deleted, which cannot be undone, because it once was to be kept for a shorter time.
    is_about_job = decision.create or any(item.kind == kinds.JOB.name for item in decision.delete)
    return Certainty.JOB if is_about_job else Certainty.CACHED


def _ends_something(before: Status, after: Status) -> bool:
    """Whether the job, a step of its preparation, or an attempt is over, perhaps for an absence."""
    if is_finished(after) and not is_finished(before):
        return True
    if before.dataset != after.dataset:
        return True
    return after.training is not None and _is_lost(before, after)


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


def _begins_again(before: Status, decision: Decision) -> bool:
    """Whether an attempt starts, or is taken over, when there may be pods of an earlier one."""
    after = decision.status.training
    if after is None or before.training is None:
        return after is not None and after.attempt > 0
    return after.attempt != before.training.attempt
