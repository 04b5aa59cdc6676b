"""What `worker` asks of those whom it waits for."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

# Whether others whom a batch in progress needs are gone, so that there can be no checkpoint.
IsHopeless = Callable[[], bool]


class Peers(Protocol):
    """The other members, before this one has joined them."""

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the framework may start.

        Raises:
            WorkloadError: the time is over.
        """

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Within the block the framework waits for the others, where only a watch can end it."""

    def explain(self, error: Exception) -> str | None:
        """Say what an error of the framework tells of the others; None where it is its own."""


def never() -> bool:
    """Have hope for a checkpoint in any case."""
    return False
