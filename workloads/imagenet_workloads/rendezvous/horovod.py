"""The slots of a Horovod job, by the variables HOROVOD_*, and the wait for the rendezvous."""

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
# Parts of errors after the loss of a slot: Horovod's message, or the source file of Gloo's broken
# connection. MXNet rewrites "FILE:LINE: text" and may drop the file, so the end of the text counts
# too.
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
        size: HOROVOD_SIZE, the number of slots.
        local_rank: HOROVOD_LOCAL_RANK, the rank in its pod.
        local_size: HOROVOD_LOCAL_SIZE, the number of slots in its pod.
        host: HOROVOD_GLOO_RENDEZVOUS_ADDR, a name or an address.
        port: HOROVOD_GLOO_RENDEZVOUS_PORT.
        timeout: HOROVOD_GLOO_TIMEOUT_SECONDS, after which Horovod aborts if a slot is missing.
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
        """Read the environment; None if HOROVOD_RANK is unset, for a single process.

        Raises:
            InputError: A variable is missing or invalid.
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
    """Read the environment of this slot.

    Raises:
        InputError: A variable is missing or invalid.
    """
    slot = Slot.from_mapping(variables)
    if slot is None:
        raise InputError(
            f"{asked}: needs a rendezvous, and variables such as HOROVOD_RANK; "
            "imagenet-slots sets them for each slot"
        )
    return HorovodRendezvous(slot)


class HorovodRendezvous:
    """The rendezvous and the other slots; implements `Rendezvous`."""

    def __init__(self, slot: Slot) -> None:
        """Take the slot that this process is."""
        self._slot = slot

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the rendezvous listens; otherwise Horovod would abort at once.

        Horovod reports a lost slot by an error, so a checkpoint is always possible.
        """
        slot = self._slot
        wait_for_port(f"slot of rank {slot.rank}", "the rendezvous", slot.host, slot.port, timeout)
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch Horovod's wait; Horovod aborts after a timeout without naming the missing slot."""
        least = min(timeout, max(self._slot.timeout - 1, 1))
        return deadline(f"{self._slot.size} slots to join", least, give_up)

    def explain(self, error: Exception) -> str | None:
        """Explain the error of a lost slot, by Horovod's text."""
        text = str(error)
        if any(words in text for words in _LOST):
            return "another slot has ended, and this one cannot continue without it"
        return None
