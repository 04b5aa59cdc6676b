"""The last step of a reconcile: apply the decision, in an order that may be interrupted anywhere.

Creates come first and the status last. A reconcile that dies in between leaves objects that the
next one observes, never a status about objects that do not exist. Events follow the status that
they describe, so that a repeated reconcile does not record them twice.

The actions of one step run at the same time, on every cluster.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from itertools import groupby

from imagenet_operator.clusters.interface import Cluster, ClusterError
from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from imagenet_operator.reconcile.types import Decision, Patch
from imagenet_spec.resource import ImageNetJob


@dataclass(frozen=True)
class Applied:
    """The job as it was applied, and why the cluster refused patches that nothing depends on."""

    job: ImageNetJob
    refused: tuple[ClusterError, ...]


def writes_status(job: ImageNetJob, decision: Decision) -> bool:
    """Whether the decision's status differs from the job's in something that matters."""
    return is_worth_a_write(job.status, decision.status)


async def apply(cluster: Cluster, job: ImageNetJob, decision: Decision) -> Applied:
    """Apply a decision, one step after the other; raise what the cluster raises.

    A step is finished even if one of its actions fails, and the next one is not begun.
    """
    refused: list[ClusterError] = []
    for step in steps_of(cluster, job, decision, refused):
        for failure in await asyncio.gather(*step, return_exceptions=True):
            if failure is not None:
                raise failure
    written = job.model_copy(update={"status": decision.status})
    return Applied(written if writes_status(job, decision) else job, tuple(refused))


def steps_of(
    cluster: Cluster, job: ImageNetJob, decision: Decision, refused: list[ClusterError]
) -> Iterator[list[Awaitable[None]]]:
    """Yield the actions of each step.

    Pods are a separate step, after the objects that they need: claims, Services, policies.
    """
    for _, manifests in groupby(decision.create, lambda item: item.get("kind") == "Pod"):
        yield [cluster.create(job, manifest) for manifest in manifests]
    yield [cluster.delete(job, reference) for reference in decision.delete]
    yield [_patch(cluster, job, patch, refused) for patch in decision.patch]
    written = job.model_copy(update={"status": decision.status})
    yield [cluster.write_status(written)] if writes_status(job, decision) else []
    yield [cluster.record_event(written, event) for event in decision.events]


async def _patch(
    cluster: Cluster, job: ImageNetJob, patch: Patch, refused: list[ClusterError]
) -> None:
    try:
        await cluster.patch(job, patch)
    except ClusterError as error:
        # The owner of a claim only says whether the claim is deleted with the job. A cluster that
        # refuses this must not keep the status from being written.
        if patch.kind != "PersistentVolumeClaim":
            raise
        refused.append(error)
