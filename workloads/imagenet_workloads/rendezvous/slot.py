"""The place of one process among all of a job and of its pod, by its environment.

Libraries have other names for the same four variables. `horovod` and `ddp` have the subclasses;
`slots` starts several processes in one pod.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from errno import ECONNRESET, EHOSTUNREACH, EPIPE, ETIMEDOUT
from typing import Any, ClassVar, NamedTuple

from imagenet_workloads.rendezvous import number

MOST_PROCESSES = 65536

# Parts of Gloo's errors after the loss of a process: the source file of the broken connection, or
# the text. MXNet rewrites "FILE:LINE: text" and may drop the file.
LOST_BY_GLOO = (
    "gloo/transport/",
    "Connection closed by peer",
    *(os.strerror(number) for number in (ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH)),
)


class SlotVariables(NamedTuple):
    """The names of the variables: over all pods, and within one."""

    rank: str
    size: str
    local_rank: str
    local_size: str

    def of_one_machine(self, size: int) -> list[dict[str, str]]:
        return [
            {
                self.rank: str(rank),
                self.size: str(size),
                self.local_rank: str(rank),
                self.local_size: str(size),
            }
            for rank in range(size)
        ]


@dataclass(frozen=True)
class Slot:
    """One process of a job; a pod runs one or several.

    Attributes:
        variables: the names of the first four in the environment.
        awaited: what listens on host and port before a pod starts its processes; empty if one of
            the processes opens the port itself.
        rank: over all pods.
        host: the name or address where the processes meet.
    """

    variables: ClassVar[SlotVariables]
    awaited: ClassVar[str] = ""

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    port: int

    @classmethod
    def read_places(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        """Read the first four attributes."""
        names = cls.variables
        size = number(environment, names.size, 1, MOST_PROCESSES)
        local_size = number(environment, names.local_size, 1, size)
        return {
            "rank": number(environment, names.rank, 0, size - 1),
            "size": size,
            "local_rank": number(environment, names.local_rank, 0, local_size - 1),
            "local_size": local_size,
        }
