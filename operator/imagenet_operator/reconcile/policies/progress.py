"""Progress: an attempt that stands still for progressDeadlineSeconds is ended, and charged.

The commonest failure of distributed training is a hang in which every pod runs, so phases alone
say nothing. What counts as progress: all members got nodes; all of them run; after that, whatever
the samples show. An attempt stands still if it is looked at after its deadline, and the look shows
nothing new.

Silence is not always a hang: a program of somebody else's may have no metrics, and a network may
let nobody ask. So an attempt that was never heard is left alone, and so is every attempt where
nobody asks. One that was heard before, by whichever operator (the status tells), stands still while
it is silent. What it did while there was no operator nobody knows; its silence then counts from the
first time that it did not answer.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Charge, End


def last_progress(training: TrainingStatus, sample: Sample | None) -> datetime | None:
    """Return when the attempt last moved; None while it waits for nodes or cannot be judged."""
    if training.running_time is None:
        return training.bound_time
    if sample is None:
        return None
    if sample.attempt == training.attempt:
        moved = sample.progressed_at
    else:
        moved = _before_the_silence(training, sample)
    return None if moved is None else max(training.running_time, moved)


def deadline(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None
) -> datetime | None:
    """Return when the attempt is to be ended unless it moves before; None if never."""
    moved = last_progress(training, sample)
    if moved is None or deadline_seconds is None:
        return None
    return moved + timedelta(seconds=deadline_seconds)


def next_look(
    training: TrainingStatus,
    sample: Sample | None,
    deadline_seconds: int | None,
    now: datetime,
    patience: timedelta,
) -> datetime | None:
    """Return when to look whether an attempt that goes on stands still; None if never.

    Args:
        training: The attempt.
        sample: The newest.
        deadline_seconds: For how long it may stand still.
        now: The time.
        patience: How long to wait for a sample, once the deadline has come before one.
    """
    limit = deadline(training, sample, deadline_seconds)
    return now + patience if limit is not None and limit <= now else limit


def verdict(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None, now: datetime
) -> End | None:
    """Return the end of an attempt that stood still for too long."""
    limit = deadline(training, sample, deadline_seconds)
    if limit is None or now < limit:
        return None
    if training.running_time is None or sample is None:
        found = "not all members came to run"
    elif sample.taken_at < limit:
        return None
    elif sample.attempt == training.attempt:
        found = "training stood still"
    else:
        found = "no worker answered"
    return End("ProgressDeadlineExceeded", f"{found} for {deadline_seconds} s", Charge.FAILURE)


def _before_the_silence(training: TrainingStatus, sample: Sample) -> datetime | None:
    """Return when an attempt at the latest moved that has not answered since it is asked here.

    None for one that was not heard before either.
    """
    heard, silent = training.last_progress_time, sample.silent_since
    if heard is None or silent is None or sample.asked != training.attempt:
        return None
    return max(heard, silent)
