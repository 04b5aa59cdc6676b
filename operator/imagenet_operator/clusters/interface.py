"""What a pass needs of a cluster: observe and apply, and nothing more.

The loop sorts what `observe` returns, decides, and hands the decision to `apply`, which calls the
other methods. Two clusters do this: this machine (`local`), which is a `Cluster`, and Kubernetes,
which takes the same actions as `AsyncActions`, many at a time; one conformance suite
(tests/support/cluster_conformance.py) runs against both.
"""

from typing import Protocol

from imagenet_operator.api import ImageNetJob
from imagenet_operator.reconcile.types import Capacity, Event, Manifest, Patch, Reference


class Cluster(Protocol):
    """A place where the children of a job live."""

    def observe(self, job: ImageNetJob) -> list[Manifest]:
        """Every object with the job's name label, or with a name that the job needs.

        Objects that are being deleted are among them until they are gone. The manifests are
        copies: changing them changes nothing.
        """

    def unreachable_nodes(self) -> frozenset[str]:
        """Nodes from which nothing will be heard again: not ready, gone or out of service."""

    def free_capacity(self) -> Capacity | None:
        """What each node has left for pods; None if that is not known."""

    def create(self, manifest: Manifest) -> None:
        """Make an object.

        Raises:
            AlreadyExists: One of this kind and name is there, whoever owns it.
        """

    def delete(self, reference: Reference) -> None:
        """Ask for an object's end, its dependents' after it (Background propagation).

        Nothing happens if it is gone, ending already, or a successor with another UID.
        """

    def patch(self, patch: Patch) -> None:
        """Merge a patch into an object; nothing happens if it is gone or has another UID."""

    def write_status(self, job: ImageNetJob) -> None:
        """Store the status that the job carries."""

    def record_event(self, job: ImageNetJob, event: Event) -> None:
        """Tell the user of one transition."""


class AsyncActions(Protocol):
    """The part of a `Cluster` that acts, for one job, where actions have to be waited for."""

    async def create(self, manifest: Manifest) -> None:
        """Make an object; nothing happens if the job has it already.

        Raises:
            NameTaken: One of this kind and name is there that is not the job's, or that is ending.
        """

    async def delete(self, reference: Reference) -> None:
        """Ask for an object's end, as `Cluster.delete`."""

    async def patch(self, patch: Patch) -> None:
        """Merge a patch into an object, as `Cluster.patch`."""

    async def write_status(self, job: ImageNetJob) -> None:
        """Store the status that the job carries, unless the job has changed since it was read."""

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        """Tell the user of one transition."""
