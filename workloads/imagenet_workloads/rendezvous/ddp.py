"""The processes of DistributedDataParallel, by torchrun's variables, and the wait for them.

MASTER_ADDR, MASTER_PORT    where the process of rank 0 listens
RANK, WORLD_SIZE            of this process, over all pods
LOCAL_RANK, LOCAL_WORLD_SIZE    of this process, in its pod (default: 0 of 1)
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous import LOOPBACK, IsHopeless, LocalMember, never, number
from imagenet_workloads.rendezvous.slot import LOST_BY_GLOO, Slot, SlotVariables
from imagenet_workloads.rendezvous.waiting import (
    deadline,
    give_up,
    is_loopback,
    keep_trying,
    resolve,
    wait_for_port,
)

VARIABLE = "RANK"
_ALONE = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
# Parts of errors after the loss of a process: Gloo's, or NCCL's.
_LOST = (
    *LOST_BY_GLOO,
    "NCCL communicator was aborted",
    "remote process exited or there was a network error",
)


@dataclass(frozen=True)
class Process(Slot):
    """One process of DistributedDataParallel."""

    variables = SlotVariables("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

    @classmethod
    def from_mapping(cls, variables: Mapping[str, str]) -> Self | None:
        if not variables.get(VARIABLE):
            return None
        host = variables.get("MASTER_ADDR", "")
        if not host:
            raise InputError("RANK is set, so MASTER_ADDR must name the host of rank 0")
        port = number(variables, "MASTER_PORT", 1, 65535)
        return cls(**cls.read_places({**_ALONE, **variables}), host=host, port=port)

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)


def find(asked: str, variables: Mapping[str, str]) -> "DdpRendezvous":
    """Read the environment of this process."""
    process = Process.from_mapping(variables)
    if process is None:
        raise InputError(
            f"{asked}: needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which torchrun and "
            "imagenetctl run set; one process needs single"
        )
    return DdpRendezvous(process)


def local_members(workers: int, servers: int, free_port: Callable[[], int]) -> list[LocalMember]:
    """Return the processes, as those of one pod."""
    common = {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(free_port())}
    return [LocalMember({**common, **place}) for place in Process.variables.of_one_machine(workers)]


class DdpRendezvous:
    """The other processes; implements `Rendezvous`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def wait(self, timeout: float) -> IsHopeless:
        """Return immediately: rank 0 listens only after its import of PyTorch.

        Gloo and NCCL report a lost process by an error, so a checkpoint is always possible.
        """
        return never

    @contextmanager
    def joining(self, timeout: float) -> Iterator[None]:
        """Wait for rank 0, and watch PyTorch's wait for the others, which has no log line."""
        process = self._process
        host, port, who = process.host, process.port, f"process of rank {process.rank}"
        if process.is_local:
            # This machine's own name may lead to an address that it cannot reach.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if process.rank:
            address = wait_for_port(who, "rank 0", host, port, timeout)
        else:
            # The address of this process, for others when it listens.
            own = f"its own name {host}"
            address = keep_trying(lambda: resolve(host, port), who, own, timeout)
        if process.rank or not ip_address(address).is_loopback:
            # PyTorch first asks for a name's IPv6 address. If there is none, that question goes
            # through all search domains and leaves the cluster, which may take seconds.
            os.environ["MASTER_ADDR"] = address
        with deadline(f"{process.size} processes to join", timeout, give_up):
            yield

    def explain(self, error: Exception) -> str | None:
        text = str(error)
        if type(error).__name__ == "DistNetworkError" or any(words in text for words in _LOST):
            return "another process has ended, and this one cannot continue without it"
        return None
