"""Progress: an attempt without progress for progressDeadlineSeconds is ended, and charged.

The commonest failure of distributed training is a hang in which every pod runs, so phases alone are
not enough. Progress is: all members are bound; all of them run; after that, progress in a sample.
An attempt hangs if a sample taken after its deadline shows no progress.

Silence is not always a hang: a user's own program may serve no metrics, and a network may block
them. So an attempt that never answered is left alone, and so is every attempt without a sampler. An
attempt that answered before, to any operator (the status records it), hangs while it is silent. Its
progress while no operator ran is unknown, so its silence counts from the first request of this
operator that it did not answer.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Charge, End


def last_progress(training: TrainingStatus, sample: Sample | None) -> datetime | None:
    """Return when the attempt last progressed; None while that is unknown, or it has no nodes."""
    if training.running_time is None:
        return training.bound_time
    if sample is None:
        return None
    if sample.attempt == training.attempt:
        moved = sample.progressed_at
    else:
        moved = _progress_before_silence(training, sample)
    return None if moved is None else max(training.running_time, moved)


def deadline(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None
) -> datetime | None:
    """Return when the attempt is ended unless it progresses before; None if never."""
    moved = last_progress(training, sample)
    if moved is None or deadline_seconds is None:
        return None
    return moved + timedelta(seconds=deadline_seconds)


def next_check(
    training: TrainingStatus,
    sample: Sample | None,
    deadline_seconds: int | None,
    now: datetime,
    requeue_interval: timedelta,
) -> datetime | None:
    """Return when to check the progress of a live attempt again; None if never.

    Args:
        training: The attempt.
        sample: The newest.
        deadline_seconds: How long it may make no progress.
        now: The time.
        requeue_interval: How long to wait for a sample when the deadline is over.
    """
    limit = deadline(training, sample, deadline_seconds)
    return now + requeue_interval if limit is not None and limit <= now else limit


def verdict(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None, now: datetime
) -> End | None:
    """Return the end of an attempt without progress for too long; None otherwise."""
    limit = deadline(training, sample, deadline_seconds)
    if limit is None or now < limit:
        return None
    where = ""
    if training.running_time is None or sample is None:
        found = "not all members ran"
    elif sample.taken_at < limit:
        return None
    elif sample.attempt == training.attempt:
        found = "training did not progress"
        where = f" (phase: {sample.phase})" if sample.phase else ""
    else:
        found = "no worker answered"
    message = f"{found} for {deadline_seconds} s{where}"
    return End("ProgressDeadlineExceeded", message, Charge.FAILURE)


def _progress_before_silence(training: TrainingStatus, sample: Sample) -> datetime | None:
    """Return the latest time of progress of an attempt that never answered this operator.

    None if it answered no operator before.
    """
    heard, silent = training.last_progress_time, sample.silent_since
    if heard is None or silent is None or sample.asked != training.attempt:
        return None
    return max(heard, silent)
