"""No rendezvous, for a worker without peers."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from imagenet_workloads.rendezvous import IsHopeless, LocalMember, never

VARIABLE = None


def find(asked: str, variables: Mapping[str, str]) -> "NoRendezvous":
    """Return the rendezvous of a worker without peers."""
    return NoRendezvous()


def local_members(workers: int, servers: int, free_port: Callable[[], int]) -> list[LocalMember]:
    """Return the only process."""
    return [LocalMember({})]


class NoRendezvous:
    """A worker without peers; implements `Rendezvous`."""

    def wait(self, timeout: float) -> IsHopeless:
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        return nullcontext()

    def explain(self, error: Exception) -> str | None:
        return None
