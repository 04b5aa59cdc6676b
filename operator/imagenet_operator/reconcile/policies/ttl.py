"""Time to live: when a finished job itself is deleted, and everything that it owns with it."""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api import ImageNetJob


def deletion_time(job: ImageNetJob) -> datetime | None:
    """Return when the job is to be deleted; None if never, or if it has not finished."""
    seconds = job.spec.run_policy.ttl_seconds_after_finished
    if seconds is None or job.status.completion_time is None:
        return None
    return job.status.completion_time + timedelta(seconds=seconds)
