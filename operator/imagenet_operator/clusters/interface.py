"""The interface of a cluster: what a reconcile reads and writes, and what can go wrong.

Two clusters implement `Cluster`: `kubernetes.cluster` and `local.cluster`. A reconcile observes the
children of a job, decides (`reconcile.decide`) and applies the decision (`apply`). `loop` says
which job is next, and `sampler` reads the metrics of the members. These modules serve both
clusters. One conformance suite, tests/support/cluster_conformance.py, runs against both.

A cluster differs from the other in how it learns of changes. Kubernetes has watch caches, leases
and live reads, since other programs write too (`kubernetes.reconciler`). The local cluster is its
own kubelet, since a pod is a process of this machine (`local.kubelet`).
"""

from typing import Protocol

from imagenet_operator.reconcile.types import Capacity, Event, Manifest, Patch, Reference
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob

JobKey = tuple[str, str]
"""Namespace and name of an ImageNetJob: what the work queue holds."""


def key_of(job: ImageNetJob) -> JobKey:
    """Return the key of a job."""
    return job.metadata.namespace, job.metadata.name


class ClusterError(ImageNetJobError):
    """A cluster cannot do what it is asked for, or does not answer."""


class AlreadyExists(ClusterError):  # noqa: N818 - the API server's reason of the same name
    """An object of this kind and name exists, and is not the job's or is being deleted."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} already exists")


class Conflict(ClusterError):  # noqa: N818 - the API server's reason of the same name
    """An object has changed since it was read."""


class LocalError(ClusterError):
    """This machine, or this working directory, cannot run the job."""


class Unsupported(LocalError):  # noqa: N818 - reads as what it says of a manifest
    """A manifest uses something of Kubernetes that processes on one machine cannot replace."""


class Cluster(Protocol):
    """A cluster that holds jobs and their children.

    Every method raises `ClusterError` if the cluster cannot do it now.
    """

    async def observe(self, job: ImageNetJob) -> list[Manifest]:
        """Return copies of the objects with the job's name label, or with a name that it needs.

        Objects that are being deleted are among them until they are gone.
        """

    async def unreachable_nodes(self, job: ImageNetJob) -> frozenset[str]:
        """Return the nodes of its pods and members that are not ready, gone or out of service."""

    async def free_capacity(self, job: ImageNetJob) -> Capacity | None:
        """Return what each node has left for a job's pods; None if that is not known."""

    async def create(self, job: ImageNetJob, manifest: Manifest) -> None:
        """Create an object unless the job has it; raise AlreadyExists if the name is taken."""

    async def delete(self, job: ImageNetJob, reference: Reference) -> None:
        """Delete an object, and its dependents after it (Background propagation).

        Nothing happens if it is gone, is being deleted, or is a successor with another UID.
        """

    async def patch(self, job: ImageNetJob, patch: Patch) -> None:
        """Merge a patch into an object; nothing happens if it is gone or has another UID."""

    async def write_status(self, job: ImageNetJob) -> None:
        """Store the status that the job carries; raise Conflict if the job has changed since."""

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        """Record an event of the job; this does not wait until it is sent."""
