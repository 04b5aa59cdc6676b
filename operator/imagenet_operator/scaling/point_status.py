"""The status of a point of a sweep: what is stored of its job decides whether it has to run.

Nothing else remembers a sweep, so that one that is cut short anywhere goes on: locally the working
directory keeps the jobs, on a cluster the API server does.
"""

from __future__ import annotations

from enum import Enum

from imagenet_operator.api import ImageNetJob
from imagenet_operator.reconcile.policies.conditions import holds


class PointStatus(Enum):
    """What is to be done about a point."""

    NEW = "nothing is stored of it"
    OTHER = "another job has its name"
    UNFINISHED = "it has begun"
    SUCCEEDED = "its figures can be read"
    FAILED = "it has failed"


def point_status(wanted: ImageNetJob, stored: ImageNetJob | None) -> PointStatus:
    """Return the status of a point.

    A changed runPolicy leaves a job the same job, as in `imagenetctl run`.

    Args:
        wanted: The point's job.
        stored: What is stored under its name.
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
