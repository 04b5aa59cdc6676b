"""The slots of a Horovod job, by the variables HOROVOD_*, and the wait for the rendezvous."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Self

from imagenet_spec.names import IMAGENET_HOROVOD_HOSTS, POD_IP, RENDEZVOUS_PROGRAM
from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous import LOOPBACK, IsHopeless, LocalMember, never, number
from imagenet_workloads.rendezvous.slot import LOST_BY_GLOO, Slot, SlotVariables
from imagenet_workloads.rendezvous.waiting import deadline, give_up, wait_for_port

VARIABLE = "HOROVOD_RANK"
# Parts of errors after the loss of a slot: Horovod's message, or Gloo's.
_LOST = ("Horovod has been shut down", *LOST_BY_GLOO)


@dataclass(frozen=True)
class HorovodSlot(Slot):
    """One process of a Horovod job.

    `timeout` is HOROVOD_GLOO_TIMEOUT_SECONDS, after which Horovod aborts if a slot is missing.
    """

    variables = SlotVariables(
        "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"
    )
    awaited = "the rendezvous"

    timeout: int

    @classmethod
    def from_mapping(cls, variables: Mapping[str, str]) -> Self | None:
        if not variables.get("HOROVOD_RANK"):
            return None
        host = variables.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", "")
        if not host:
            raise InputError(
                "HOROVOD_RANK is set, so HOROVOD_GLOO_RENDEZVOUS_ADDR must name the rendezvous"
            )
        return cls(
            **cls.read_places(variables),
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
    """Read the environment of this slot."""
    slot = HorovodSlot.from_mapping(variables)
    if slot is None:
        raise InputError(
            f"{asked}: needs a rendezvous, and variables such as HOROVOD_RANK; "
            "imagenet-slots sets them for each slot"
        )
    return HorovodRendezvous(slot)


def local_members(workers: int, servers: int, free_port: Callable[[], int]) -> list[LocalMember]:
    """Return the rendezvous and the slots, as those of one pod."""
    host, port = "localhost", str(free_port())
    rendezvous = {
        IMAGENET_HOROVOD_HOSTS: f"{host}:{workers}",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
        POD_IP: LOOPBACK,
    }
    common = {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": LOOPBACK,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "900",
        "HOROVOD_HOSTNAME": host,
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_CROSS_RANK": "0",
    }
    return [
        LocalMember(rendezvous, RENDEZVOUS_PROGRAM, is_worker=False),
        *(
            LocalMember({**common, **place})
            for place in HorovodSlot.variables.of_one_machine(workers)
        ),
    ]


class HorovodRendezvous:
    """The rendezvous and the other slots; implements `Rendezvous`."""

    def __init__(self, slot: HorovodSlot) -> None:
        self._slot = slot

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the rendezvous listens; otherwise Horovod would abort.

        Horovod reports a lost slot by an error, so a checkpoint is always possible.
        """
        slot = self._slot
        wait_for_port(f"slot of rank {slot.rank}", slot.awaited, slot.host, slot.port, timeout)
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch Horovod's wait; Horovod aborts after a timeout without naming the missing slot."""
        least = min(timeout, max(self._slot.timeout - 1, 1))
        return deadline(f"{self._slot.size} slots to join", least, give_up)

    def explain(self, error: Exception) -> str | None:
        text = str(error)
        if any(words in text for words in _LOST):
            return "another slot has ended, and this one cannot continue without it"
        return None
