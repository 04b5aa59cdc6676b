"""The status of a point of a sweep: whether its stored job still has to run.

A sweep has no other state, so it can be resumed at any point. The jobs are stored in the working
directory or by the API server.
"""

from __future__ import annotations

from enum import Enum

from imagenet_operator.api import ImageNetJob
from imagenet_operator.reconcile.policies.job_status import holds


class PointStatus(Enum):
    """The status of a point."""

    NEW = "no job is stored"
    OTHER = "another job has its name"
    UNFINISHED = "it has started"
    SUCCEEDED = "it has succeeded"
    FAILED = "it has failed"


def point_status(wanted: ImageNetJob, stored: ImageNetJob | None) -> PointStatus:
    """Return the status of a point.

    Jobs that differ only in runPolicy are the same job, as in `imagenetctl run`.

    Args:
        wanted: The point's job.
        stored: The stored job of that name, or None.
    """
    if stored is None:
        return PointStatus.NEW
    same = stored.spec.dataset == wanted.spec.dataset and (
        stored.spec.training == wanted.spec.training
    )
    if not same:
        return PointStatus.OTHER
    if holds(stored.status.conditions, "Succeeded"):
        return PointStatus.SUCCEEDED
    if holds(stored.status.conditions, "Failed"):
        return PointStatus.FAILED
    return PointStatus.UNFINISHED
