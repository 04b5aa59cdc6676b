"""What can go wrong between a decision and a cluster.

`AlreadyExists` belongs to every cluster; the others say why this machine cannot stand in for one,
and the command line turns them into one line and exit code 3.
"""

from imagenet_operator.errors import ImageNetJobError


class ClusterError(ImageNetJobError):
    """A cluster cannot do what a decision asks for."""


class AlreadyExists(ClusterError):  # noqa: N818 - the API server's reason of the same name
    """An object with this kind and name is there, perhaps on its way out."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} already exists")


class NameTaken(AlreadyExists):
    """What is there is not the job's, or is on its way out: the pass has to see it first."""


class LocalError(ClusterError):
    """This machine, or this working directory, cannot run the job."""


class Unsupported(LocalError):  # noqa: N818 - reads as what it says of a manifest
    """A manifest uses something of Kubernetes that processes on one machine cannot stand in for."""
