"""The last step of a pass: do what was decided, in an order that may be cut anywhere.

Creates come first and the status last: a pass that dies in between leaves objects that the next
pass sees, never a status that speaks of objects that were not made. Events follow the status that
they tell of, so that a pass that is repeated does not tell twice.
"""

import contextlib

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.errors import AlreadyExists
from imagenet_operator.clusters.interface import Cluster
from imagenet_operator.reconcile.status import matters_differently
from imagenet_operator.reconcile.types import Decision


def apply(cluster: Cluster, job: ImageNetJob, decision: Decision) -> ImageNetJob:
    """Carry out a decision.

    An object that is already there is what was wanted, or what the next pass will see as
    somebody else's.

    Returns:
        The job as it stands now, with the status that the cluster has of it.
    """
    for manifest in decision.create:
        with contextlib.suppress(AlreadyExists):
            cluster.create(manifest)
    for reference in decision.delete:
        cluster.delete(reference)
    for patch in decision.patch:
        cluster.patch(patch)
    if matters_differently(job.status, decision.status):
        job = job.model_copy(update={"status": decision.status})
        cluster.write_status(job)
    for event in decision.events:
        cluster.record_event(job, event)
    return job
