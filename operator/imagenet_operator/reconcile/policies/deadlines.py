"""Deadlines: how long a job may prepare and train, and an attempt may make no progress.

preparationDeadlineSeconds and activeDeadlineSeconds are read from clocks, which leave the pauses
out. activeDeadlineSeconds counts the time that all members of an attempt run, over all attempts.

An attempt without progress for progressDeadlineSeconds is ended, and charged. The commonest failure
of distributed training is a hang in which every pod runs, so phases alone are not enough. Progress
is: all members are bound; all of them run; after that, progress in a sample. An attempt hangs if a
sample taken after its deadline shows no progress.

Silence is not always a hang: a user's own program may serve no metrics, and a network may block
them. So an attempt that never answered is left alone, and so is every attempt without a sampler. An
attempt that answered before, to any operator (the status records it), hangs while it is silent. Its
silence counts from the first request of this operator that it did not answer.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Charge, End
from imagenet_spec.resource.status import Clock, TrainingStatus


def start_clock(clock: Clock, now: datetime) -> Clock:
    """Return the clock running; one that runs is unchanged."""
    return clock if clock.since is not None else Clock(seconds=clock.seconds, since=now)


def stop_clock(clock: Clock, now: datetime) -> Clock:
    """Return the clock stopped; one that is stopped is unchanged."""
    return clock if clock.since is None else Clock(seconds=_elapsed(clock, now))


def ends_at(clock: Clock, deadline_seconds: int | None) -> datetime | None:
    """Return when a running clock reaches a deadline; None if it is stopped, or without one."""
    if deadline_seconds is None or clock.since is None:
        return None
    return clock.since + timedelta(seconds=deadline_seconds - clock.seconds)


def is_over(clock: Clock, deadline_seconds: int | None, now: datetime) -> bool:
    """Return whether a clock, running or not, has reached a deadline."""
    return deadline_seconds is not None and _elapsed(clock, now) >= deadline_seconds


def _elapsed(clock: Clock, now: datetime) -> int:
    if clock.since is None:
        return clock.seconds
    return clock.seconds + max(0, int((now - clock.since).total_seconds()))


def last_progress(training: TrainingStatus, sample: Sample | None) -> datetime | None:
    """Return when the attempt last progressed; None while that is unknown, or it has no nodes."""
    if training.running_time is None:
        return training.bound_time
    if sample is None:
        return None
    moved = sample.progressed_at
    if sample.attempt != training.attempt:
        # It never answered this operator; perhaps it answered one before.
        heard, silent = training.last_progress_time, sample.silent_since
        if heard is None or silent is None or sample.asked != training.attempt:
            return None
        moved = max(heard, silent)
    return None if moved is None else max(training.running_time, moved)


def progress_deadline(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None
) -> datetime | None:
    """Return when the attempt is ended unless it progresses before; None if never."""
    moved = last_progress(training, sample)
    if moved is None or deadline_seconds is None:
        return None
    return moved + timedelta(seconds=deadline_seconds)


def next_progress_check(
    training: TrainingStatus,
    sample: Sample | None,
    deadline_seconds: int | None,
    now: datetime,
    requeue_interval: timedelta,
) -> datetime | None:
    """Return when to check the progress of a live attempt again; None if never.

    After the deadline, a sample is awaited for `requeue_interval`.
    """
    limit = progress_deadline(training, sample, deadline_seconds)
    return now + requeue_interval if limit is not None and limit <= now else limit


def no_progress(
    training: TrainingStatus, sample: Sample | None, deadline_seconds: int | None, now: datetime
) -> End | None:
    """Return the end of an attempt without progress for too long; None otherwise."""
    limit = progress_deadline(training, sample, deadline_seconds)
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
