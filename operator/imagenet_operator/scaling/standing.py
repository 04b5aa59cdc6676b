"""How a point of a sweep stands: what is stored of its job decides whether it still has to run.

Nothing else remembers a sweep, so that one that is cut short anywhere goes on: locally the working
directory keeps the jobs, on a cluster the API server does.
"""

from __future__ import annotations

from enum import Enum

from imagenet_operator.api import ImageNetJob
from imagenet_operator.reconcile.policies.conditions import holds


class Standing(Enum):
    """What is to be done about a point."""

    NEW = "nothing is stored of it"
    OTHER = "another job has its name"
    UNFINISHED = "it has begun"
    SUCCEEDED = "its figures can be read"
    FAILED = "it has failed"


def standing(wanted: ImageNetJob, stored: ImageNetJob | None) -> Standing:
    """Return how a point stands.

    A changed runPolicy leaves a job the same job, as in `imagenetctl run`.

    Args:
        wanted: The point's job.
        stored: What is stored under its name.
    """
    if stored is None:
        return Standing.NEW
    same = stored.spec.dataset == wanted.spec.dataset and (
        stored.spec.training == wanted.spec.training
    )
    if not same:
        return Standing.OTHER
    if holds(stored.status.conditions, "Succeeded"):
        return Standing.SUCCEEDED
    if holds(stored.status.conditions, "Failed"):
        return Standing.FAILED
    return Standing.UNFINISHED
