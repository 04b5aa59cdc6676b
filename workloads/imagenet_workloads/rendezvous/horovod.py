"""The slots of a Horovod job, by the variables HOROVOD_*: which one this is, and its wait."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from errno import ECONNRESET, EHOSTUNREACH, EPIPE, ETIMEDOUT
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous import IsHopeless, never, number
from imagenet_workloads.rendezvous.waiting import deadline, give_up, wait_for_port

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


@dataclass(frozen=True)
class Slot:
    """One process of a Horovod job; a pod runs one or several.

    Attributes:
        rank: HOROVOD_RANK, over all pods.
        size: HOROVOD_SIZE, how many there are.
        local_rank: HOROVOD_LOCAL_RANK, in its pod.
        local_size: HOROVOD_LOCAL_SIZE, how many run there.
        host: HOROVOD_GLOO_RENDEZVOUS_ADDR, a name or an address.
        port: HOROVOD_GLOO_RENDEZVOUS_PORT.
        timeout: HOROVOD_GLOO_TIMEOUT_SECONDS, after which Horovod aborts where a slot is missing.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    port: int
    timeout: int

    @classmethod
    def from_mapping(cls, variables: Mapping[str, str]) -> Self | None:
        """Read the environment; None where HOROVOD_RANK is unset, which is a single process.

        Raises:
            InputError: a variable is missing or wrong.
        """
        if not variables.get("HOROVOD_RANK"):
            return None
        host = variables.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", "")
        if not host:
            raise InputError(
                "HOROVOD_RANK is set, so HOROVOD_GLOO_RENDEZVOUS_ADDR must name the rendezvous"
            )
        size = number(variables, "HOROVOD_SIZE", 1, 65536)
        local_size = number(variables, "HOROVOD_LOCAL_SIZE", 1, size)
        return cls(
            rank=number(variables, "HOROVOD_RANK", 0, size - 1),
            size=size,
            local_rank=number(variables, "HOROVOD_LOCAL_RANK", 0, local_size - 1),
            local_size=local_size,
            host=host,
            port=number(variables, "HOROVOD_GLOO_RENDEZVOUS_PORT", 1, 65535),
            timeout=number(
                {"HOROVOD_GLOO_TIMEOUT_SECONDS": "30"} | dict(variables),
                "HOROVOD_GLOO_TIMEOUT_SECONDS",
                1,
                10**9,
            ),
        )


def find(asked: str, variables: Mapping[str, str]) -> "HorovodRendezvous":
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
    return HorovodRendezvous(slot)


class HorovodRendezvous:
    """The rendezvous and the other slots; implements `Rendezvous`."""

    def __init__(self, slot: Slot) -> None:
        """Take which slot this is."""
        self._slot = slot

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the rendezvous listens, without which Horovod aborts at once.

        Horovod reports a lost slot by an error, so a checkpoint is always possible.
        """
        slot = self._slot
        wait_for_port(f"slot of rank {slot.rank}", "the rendezvous", slot.host, slot.port, timeout)
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch Horovod wait; it aborts by itself after a while, without saying for whom."""
        least = min(timeout, max(self._slot.timeout - 1, 1))
        return deadline(f"{self._slot.size} slots to join", least, give_up)

    def explain(self, error: Exception) -> str | None:
        """Name a lost slot as the reason, by the text of Horovod's error."""
        text = str(error)
        if any(words in text for words in _LOST):
            return "another slot has ended, and this one cannot go on without it"
        return None
