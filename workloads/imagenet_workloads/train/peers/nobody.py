"""A worker that is alone, or whose strategy does all the waiting."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from imagenet_workloads.train.peers.interface import IsHopeless, never

VARIABLE = None


def find(asked: str, variables: Mapping[str, str]) -> "Nobody":
    """Give the peers of a worker that is alone."""
    return Nobody()


class Nobody:
    """No peers; implements `Peers`."""

    def wait(self, timeout: float) -> IsHopeless:
        """Return at once."""
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def explain(self, error: Exception) -> str | None:
        """Give None."""
        return None
