"""No rendezvous, for a worker without peers."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from imagenet_workloads.rendezvous import IsHopeless, never

VARIABLE = None


def find(asked: str, variables: Mapping[str, str]) -> "NoRendezvous":
    """Return the rendezvous of a worker without peers."""
    return NoRendezvous()


class NoRendezvous:
    """A worker without peers; implements `Rendezvous`."""

    def wait(self, timeout: float) -> IsHopeless:
        """Return immediately."""
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def explain(self, error: Exception) -> str | None:
        """Return None."""
        return None
