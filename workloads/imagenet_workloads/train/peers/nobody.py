"""A worker that is alone, or whose strategy does all the waiting."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.peers.interface import IsHopeless, never

# What makes a process one of several, and the strategies that then fit.
OTHERS = {
    "DMLC_ROLE": "dist_sync, dist_device_sync or dist_async",
    "HOROVOD_RANK": "horovod",
}


def find(asked: str, variables: Mapping[str, str]) -> "Nobody":
    """Give the peers of a worker that is alone.

    Raises:
        InputError: the environment says that it is not.
    """
    for variable, fitting in OTHERS.items():
        if variables.get(variable):
            raise InputError(
                f"{asked}: {variable} is {variables[variable]}, and that needs {fitting}"
            )
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
