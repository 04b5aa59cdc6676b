"""Progress: an attempt that stands still for progressDeadlineSeconds is ended, and charged.

The commonest failure of distributed training is a hang in which every pod runs, so phases alone
say nothing. What counts as progress: all members got nodes; all of them run; after that, whatever
the samples show. Without a sample of this attempt nothing can be said of a running one, and it is
left alone.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Charge, End


def last_progress(training: TrainingStatus, sample: Sample | None) -> datetime | None:
    """Return when the attempt last moved; None while it waits for nodes or is not sampled."""
    if training.running_time is None:
        return training.bound_time
    if sample is None or sample.attempt != training.attempt or sample.progressed_at is None:
        return None
    return max(training.running_time, sample.progressed_at)


def deadline(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None
) -> datetime | None:
    """Return when the attempt is to be ended unless it moves before; None if never."""
    moved = last_progress(training, sample)
    if moved is None or deadline_seconds is None:
        return None
    return moved + timedelta(seconds=deadline_seconds)


def verdict(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None, now: datetime
) -> End | None:
    """Return the end of an attempt that stood still for too long."""
    limit = deadline(training, sample, deadline_seconds)
    if limit is None or now < limit:
        return None
    where = "training stood still" if training.running_time else "not all members came to run"
    return End("ProgressDeadlineExceeded", f"{where} for {deadline_seconds} s", Charge.FAILURE)
