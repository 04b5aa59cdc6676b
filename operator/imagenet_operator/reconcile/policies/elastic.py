"""Elastic: how many workers the next attempt of a job with `minReplicas` has, and when it grows.

The first attempt has the largest number, and so has the first one after a suspension: its pods wait
for nodes, which a cluster autoscaler may add. If not all members are bound after `waitSeconds`, the
next attempt has the largest smaller number that fits; if a quota did not admit all pods, as many as
it admitted. After any other end, the next one has the largest number that fits. If no number fits,
it waits with the former number, or with the least one after a wait in vain.

If the free capacity is not known, the number of workers that were bound decides, and no job grows.

An attempt that runs with fewer workers is ended at a checkpoint when more fit: `maxChangesPerHour`
limits how often. Capacity is an estimate. If the scheduler has not placed what should fit, the job
does not grow for an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.reconcile.policies import gang, suspend
from imagenet_operator.reconcile.types import Charge, End
from imagenet_spec.resource.status import TrainingStatus

HOUR: Final = timedelta(hours=1)
"""The time in which changes count, and in which a doubtful capacity is not trusted."""

GROWING: Final = "Growing"
"""The reason of the end of an attempt that is followed by one with more workers."""

Shortage = Callable[[int], str | None]
"""Returns why a number of workers has no room; None if it fits."""


@dataclass(frozen=True)
class Choice:
    """The workers of the next attempt.

    It `is_doubtful` if more should fit by the estimate, and the scheduler did not place them.
    """

    workers: int
    why: str = ""
    is_doubtful: bool = False


def next_workers(
    counts: Sequence[int],
    former: TrainingStatus | None,
    shortage: Shortage | None,
    now: datetime,
) -> Choice:
    """Return the number of workers of the next attempt; `former` is the one before it.

    `counts` ascend. `shortage` is None if the free capacity is not known.
    """
    least, largest = counts[0], counts[-1]
    if former is None or former.outcome is None or former.outcome.reason == suspend.END.reason:
        return Choice(largest)
    before = max((count for count in counts if count <= workers_of(former)), default=least)
    is_over_quota = former.outcome.reason == gang.OVER_QUOTA
    has_failed = is_over_quota or former.outcome.reason == gang.TIMED_OUT
    if not has_failed or before == least:
        if shortage is None:
            return Choice(before)
        possible = counts if _is_trusted(former, now) else _up_to(counts, before)
        return Choice(_largest(possible, shortage, before), _why(counts, shortage))
    below = [count for count in counts if count < before]
    why = former.outcome.message
    if shortage is None or is_over_quota:
        bound = _up_to(below, former.bound_workers or 0)
        return Choice(max(bound, default=least), why, is_doubtful=is_over_quota)
    is_doubtful = shortage(before) is None
    return Choice(
        _largest(below, shortage, least),
        why if is_doubtful else _why(counts, shortage),
        is_doubtful,
    )


def growth(
    counts: Sequence[int],
    training: TrainingStatus,
    max_changes_per_hour: int,
    shortage: Shortage | None,
    now: datetime,
) -> End | None:
    """Return the end of an attempt that goes on with more workers; None while it cannot grow.

    `counts` ascend. `shortage` judges a larger number, beside the attempt.
    """
    if shortage is None or not may_grow(counts, training):
        return None
    if not _is_trusted(training, now):
        return None
    if len(within_an_hour(training.worker_changes or (), now)) >= max_changes_per_hour:
        return None
    before = workers_of(training)
    larger = _largest([count for count in counts if count > before], shortage, before)
    if larger == before:
        return None
    message = f"{larger} workers fit now; going on with more than {before} from a checkpoint"
    return End(GROWING, message, Charge.GROWTH)


def may_grow(counts: Sequence[int], training: TrainingStatus) -> bool:
    """Whether an attempt runs with fewer workers than it may have, and none has ended."""
    return (
        training.outcome is None
        and training.running_time is not None
        and workers_of(training) < counts[-1]
        and all(member.phase == "Running" for member in training.members)
    )


def workers_of(training: TrainingStatus) -> int:
    """Return the number of workers of an attempt."""
    return sum(member.role == "worker" for member in training.members)


def within_an_hour(changes: Iterable[datetime], now: datetime) -> tuple[datetime, ...]:
    """Return the changes that count towards `maxChangesPerHour`."""
    return tuple(time for time in changes if now - time < HOUR)


def _is_trusted(training: TrainingStatus, now: datetime) -> bool:
    return training.growth_after is None or now >= training.growth_after


def _up_to(counts: Iterable[int], most: int) -> list[int]:
    return [count for count in counts if count <= most]


def _largest(counts: Iterable[int], shortage: Shortage, otherwise: int) -> int:
    found = (count for count in sorted(counts, reverse=True) if shortage(count) is None)
    return next(found, otherwise)


def _why(counts: Iterable[int], shortage: Shortage) -> str:
    """Return why the smallest number that does not fit has no room."""
    reasons = (shortage(count) for count in counts)
    return next((reason for reason in reasons if reason is not None), "")
