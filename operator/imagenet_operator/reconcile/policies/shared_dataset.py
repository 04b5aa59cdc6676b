"""Shared dataset: of the jobs that need one dataset on one claim, one prepares it at a time.

After `index`, a job knows which dataset it needs. A job that packs already goes first, else the
oldest by creationTimestamp, then by UID. The others wait, and their preparation deadline goes on.
If the first one fails, is suspended or is deleted, the next takes over, and the shards that
exist stay. Once it has sealed the dataset, the others only have the seal checked.

A job may not see yet that another one packs. Then both pack, which costs time and does no harm: a
shard appears as a whole, and one that exists is not made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.reconcile.types import Sharer
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status

REASON: Final = "WaitingForJob"
"""The reason of DatasetReady while another job prepares the dataset."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Need:
    """A dataset that a job needs: its claim and its key."""

    claim: str | None
    key: str


def needs_turn(status: Status) -> bool:
    """Whether the next step of a job is to pack a dataset that it knows."""
    found = status.listed
    return (
        found is not None
        and not found.sealed
        and status.completion_time is None
        and not job_status.holds(status.conditions, "DatasetReady")
    )


def need(job: ImageNetJob) -> Need | None:
    """Return the dataset that a job needs; None before it knows it."""
    found = job.status.listed
    return None if found is None else Need(volumes.dataset_claim(job), found.key)


def sharer(other: ImageNetJob, *, is_run: bool) -> Sharer:
    """Return a job as the others see it; `is_run` says whether this operator runs the job."""
    ready = job_status.find(other.status.conditions, "DatasetReady")
    is_ready = ready is not None and ready.status == "True"
    is_stopped = other.spec.run_policy.suspend or other.status.completion_time is not None
    return Sharer(
        name=other.metadata.name,
        uid=other.metadata.uid,
        created=_created(other),
        goes_on=is_run and not is_stopped,
        sealed_at=ready.last_transition_time if ready is not None and is_ready else None,
    )


def decisive(sharers: Iterable[Sharer]) -> tuple[Sharer, ...]:
    """Return the jobs that decide about the turn of any one of them.

    Those are the first two that prepare, since one of them may ask, and the two that sealed last.
    """
    found = list(sharers)
    sealed = [item for item in found if item.sealed_at is not None]
    return (
        *sorted((item for item in found if _prepares(item)), key=_rank)[:2],
        *sorted(sealed, key=lambda item: str(item.sealed_at))[-2:],
    )


def _prepares(item: Sharer) -> bool:
    return item.goes_on and item.sealed_at is None


def _rank(item: Sharer) -> tuple[bool, datetime, str]:
    return (not item.packs, item.created, item.uid)


def first(job: ImageNetJob, sharers: Iterable[Sharer]) -> Sharer | None:
    """Return the job that prepares the dataset before this one does; None if it has its turn."""
    mine = (True, _created(job), job.metadata.uid)
    found = min(filter(_prepares, sharers), key=_rank, default=None)
    return found if found is not None and _rank(found) < mine else None


def is_sealed(job: ImageNetJob, sharers: Iterable[Sharer]) -> bool:
    """Whether another job has sealed the dataset since this job is there.

    A seal of before says nothing: index found the dataset without one, so it was deleted.
    """
    return any(item.sealed_at is not None and item.sealed_at >= _created(job) for item in sharers)


def message(other: Sharer) -> str:
    """Return the message of DatasetReady while another job goes first."""
    return f"ImageNetJob {other.name} prepares the same dataset on the same claim"


def _created(job: ImageNetJob) -> datetime:
    return job.metadata.creation_timestamp or _NEVER
