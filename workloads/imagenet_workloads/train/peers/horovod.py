"""A slot among a Horovod job's, by the variables HOROVOD_*."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from errno import ECONNRESET, EHOSTUNREACH, EPIPE, ETIMEDOUT

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.horovod.slot import Slot
from imagenet_workloads.train.peers.interface import IsHopeless, never
from imagenet_workloads.train.rendezvous import deadline, give_up, wait_for_port

VARIABLE = "HOROVOD_RANK"
# What errors hold where a slot has gone while others counted on it: Horovod's own words, or, of the
# operation that was under way then, the place in Gloo where its connection broke. MXNet rewrites
# "FILE:LINE: text" and so may drop that place; then the end of the text still tells.
_LOST = (
    "Horovod has been shut down",
    "gloo/transport/",
    "Connection closed by peer",
    *(os.strerror(number) for number in (ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH)),
)


def find(asked: str, variables: Mapping[str, str]) -> "Slots":
    """Read which slot this is.

    Raises:
        InputError: a variable is missing or wrong.
    """
    slot = Slot.from_mapping(variables)
    if slot is None:
        raise InputError(
            f"{asked}: needs a rendezvous, and HOROVOD_RANK and others say which slot this is; "
            "imagenet-slots sets them for each"
        )
    return Slots(slot)


class Slots:
    """The rendezvous and the other slots; implements `Peers`."""

    def __init__(self, slot: Slot) -> None:
        """Take which slot this is."""
        self._slot = slot

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the rendezvous listens, without which Horovod aborts at once.

        Whoever loses a slot hears of it by an error, so there is always hope.
        """
        slot = self._slot
        wait_for_port(f"slot of rank {slot.rank}", "the rendezvous", slot.host, slot.port, timeout)
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch Horovod wait; it aborts by itself after a while, without saying for whom."""
        least = min(timeout, max(self._slot.timeout - 1, 1))
        return deadline(f"{self._slot.size} slots to join", least, give_up)

    def explain(self, error: Exception) -> str | None:
        """Tell of a slot that has gone, by what Horovod then says."""
        text = str(error)
        if any(words in text for words in _LOST):
            return "another slot has ended, and this one cannot go on without it"
        return None
