"""Start errors: image and configuration errors have a separate limit, and are not charged.

Another attempt would meet the same error, so none is made. The attempt, or the Job of the
preparation, stays until the error is cured, or until startDeadlineSeconds are over and the job
fails. The status records the first error, so that a restart of the operator does not forget it.

A program that the container runtime cannot start ends its pod, and with it the attempt. The next
attempt starts after as long as the row of such attempts has lasted, so that the wait doubles. The
row ends when all members run. Its deadline is the same.

A job that has trained loses more by a failure than by a wait. So while it has restarts left, it
waits for the cure without an end, and its condition names the error.

While an error lasts, the attempt is ended neither for a lack of progress nor for members without
nodes. After it, both count from its end.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import StartErrors, Status, TrainingStatus

REASON = "StartDeadlineExceeded"
"""The reason of a job that fails by this policy."""

NOT_STARTED = "RunContainerError"
"""The reason of an attempt that ended because a program could not be started."""


def is_worth_a_wait(job: ImageNetJob, status: Status) -> bool:
    """Whether a job waits for the cure of a start error beyond the deadline.

    Args:
        job: The job.
        status: Its new status so far.
    """
    has_restarts = status.restarts < job.spec.run_policy.backoff_limit
    return has_restarts and status.progressed_attempt is not None


def recorded(former: StartErrors | None, is_error: bool, now: datetime) -> StartErrors | None:
    """Return the record after this reconcile.

    Args:
        former: The record so far.
        is_error: Whether an image or configuration error is observed.
        now: The time.
    """
    if is_error:
        return former if is_counting(former) else StartErrors(since=now)
    return StartErrors(cleared=now) if is_counting(former) else former


def is_counting(errors: StartErrors | None) -> bool:
    """Whether an error lasts."""
    return errors is not None and errors.since is not None


def deadline(errors: StartErrors | None, seconds: int) -> datetime | None:
    """Return when the job fails unless the error is cured; None without an error."""
    if errors is None or errors.since is None:
        return None
    return errors.since + timedelta(seconds=seconds)


def excused(training: TrainingStatus, errors: StartErrors | None) -> TrainingStatus:
    """Return an attempt as the other deadlines read it: its waits begin when the errors end."""
    if errors is None or errors.cleared is None:
        return training
    times = {name: getattr(training, name) for name in ("schedulable_time", "bound_time")}
    return training.model_copy(
        update={name: max(time, errors.cleared) for name, time in times.items() if time is not None}
    )
