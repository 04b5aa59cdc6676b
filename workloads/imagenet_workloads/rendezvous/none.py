"""No rendezvous: a worker that is alone."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from imagenet_workloads.rendezvous import IsHopeless, never

VARIABLE = None


def find(asked: str, variables: Mapping[str, str]) -> "NoRendezvous":
    """Give the rendezvous of a worker that is alone."""
    return NoRendezvous()


class NoRendezvous:
    """No other members; implements `Rendezvous`."""

    def wait(self, timeout: float) -> IsHopeless:
        """Return at once."""
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def explain(self, error: Exception) -> str | None:
        """Give None."""
        return None
