"""The last step of a pass: do what was decided, in an order that may be cut anywhere.

Creates come first and the status last: a pass that dies in between leaves objects that the next
pass sees, never a status that speaks of objects that were not made. Events follow the status that
they tell of, so that a pass that is repeated does not tell twice.

`steps` is that order, for every cluster. This machine takes the actions one by one (`apply`); a
Kubernetes cluster takes those of one step at the same time (`apply_at_once`).
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.errors import AlreadyExists
from imagenet_operator.clusters.interface import AsyncActions, Cluster
from imagenet_operator.reconcile.status import matters_differently
from imagenet_operator.reconcile.types import Decision, Event, Manifest, Patch, Reference


@dataclass(frozen=True)
class Create:
    """Make an object."""

    manifest: Manifest


@dataclass(frozen=True)
class WriteStatus:
    """Store the job's status."""

    job: ImageNetJob


@dataclass(frozen=True)
class Tell:
    """Record an event."""

    job: ImageNetJob
    event: Event


Action = Create | Reference | Patch | WriteStatus | Tell
"""One thing to do: a `Reference` is to be deleted, a `Patch` to be merged."""


def steps(job: ImageNetJob, decision: Decision) -> Iterator[list[Action]]:
    """Yield a decision's actions in order; those of one step need not wait for each other.

    Pods have a step of their own, after what they need to find: claims, Services, policies.
    """
    for _, manifests in groupby(decision.create, lambda item: item.get("kind") == "Pod"):
        yield [Create(manifest) for manifest in manifests]
    yield [*decision.delete]
    yield [*decision.patch]
    written = job.model_copy(update={"status": decision.status})
    yield [WriteStatus(written)] if writes_status(job, decision) else []
    yield [Tell(written, event) for event in decision.events]


def writes_status(job: ImageNetJob, decision: Decision) -> bool:
    """Whether the decision's status differs from the job's in something that matters."""
    return matters_differently(job.status, decision.status)


def apply(cluster: Cluster, job: ImageNetJob, decision: Decision) -> ImageNetJob:
    """Carry out a decision, one action after the other.

    An object that is already there is what was wanted, or what the next pass will see as
    somebody else's.

    Returns:
        The job as it stands now, with the status that the cluster has of it.
    """
    for step in steps(job, decision):
        for action in step:
            match action:
                case Create(manifest):
                    with contextlib.suppress(AlreadyExists):
                        cluster.create(manifest)
                case Reference():
                    cluster.delete(action)
                case Patch():
                    cluster.patch(action)
                case WriteStatus(written):
                    cluster.write_status(written)
                    job = written
                case Tell(about, event):
                    cluster.record_event(about, event)
    return job


async def apply_at_once(actions: AsyncActions, job: ImageNetJob, decision: Decision) -> None:
    """Carry out a decision, the actions of each step at the same time.

    A step is finished even if one of its actions fails, and the next one is not begun.

    Raises:
        NameTaken: An object that should be created is there and is not the job's.
    """
    for step in steps(job, decision):
        results = await asyncio.gather(
            *(_act(actions, action) for action in step), return_exceptions=True
        )
        for failure in results:
            if failure is not None:
                raise failure


async def _act(actions: AsyncActions, action: Action) -> None:
    match action:
        case Create(manifest):
            await actions.create(manifest)
        case Reference():
            await actions.delete(action)
        case Patch():
            await actions.patch(action)
        case WriteStatus(job):
            await actions.write_status(job)
        case Tell(job, event):
            await actions.record_event(job, event)
