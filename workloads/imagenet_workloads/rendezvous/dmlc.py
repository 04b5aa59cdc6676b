"""The members of a parameter server job, by MXNet's variables DMLC_*: roles, waits, connections.

ps-lite's scheduler opens its port when MXNet starts, without waiting for others. So servers and
workers wait for that port, and the scheduler waits until its own name resolves. From then on
schedulers and servers stay in MXNet's C++, which reports nothing: their connections are counted.
"""

import functools
import ipaddress
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous import LOOPBACK, IsHopeless, LocalMember, number
from imagenet_workloads.rendezvous.waiting import (
    deadline,
    give_up,
    is_address,
    is_gone,
    keep_trying,
    resolve,
    wait_for_port,
)

VARIABLE = "DMLC_ROLE"
# Only IPv4, as in ps-lite.
CONNECTIONS = Path("/proc/self/net/tcp")
_ESTABLISHED = "01"


class DmlcRole(StrEnum):
    """The values of DMLC_ROLE."""

    SCHEDULER = "scheduler"
    SERVER = "server"
    WORKER = "worker"


@dataclass(frozen=True)
class DmlcMember:
    """One process of a parameter-server job.

    Attributes:
        host: DMLC_PS_ROOT_URI, the scheduler's name or IP address, the same for all members.
        port: DMLC_PS_ROOT_PORT.
        own_host: DMLC_NODE_HOST, the address that a server or worker binds; None for ps-lite's
            choice.
        own_port: PORT, the port that it binds.
    """

    role: DmlcRole
    host: str
    port: int
    workers: int
    servers: int
    own_host: str | None = None
    own_port: int | None = None

    @classmethod
    def from_mapping(cls, variables: Mapping[str, str]) -> Self | None:
        if not variables.get("DMLC_ROLE"):
            return None
        try:
            role = DmlcRole(variables["DMLC_ROLE"])
        except ValueError:
            raise InputError(
                f"DMLC_ROLE is {variables['DMLC_ROLE']!r}; write one of {', '.join(DmlcRole)}"
            ) from None
        host = variables.get("DMLC_PS_ROOT_URI", "")
        if not host:
            raise InputError(f"DMLC_ROLE is {role}, so DMLC_PS_ROOT_URI must name the scheduler")
        own_host = variables.get("DMLC_NODE_HOST") or None
        for name, text in (("DMLC_PS_ROOT_URI", host), ("DMLC_NODE_HOST", own_host)):
            if text is not None and is_address(text, ipaddress.IPv6Address):
                raise InputError(
                    f"{name} is {text}, and MXNet's parameter server supports only IPv4; "
                    "give the pods IPv4 addresses, or use another strategy"
                )
        return cls(
            role,
            host,
            number(variables, "DMLC_PS_ROOT_PORT", 1, 65535),
            number(variables, "DMLC_NUM_WORKER", 1, 65536),
            number(variables, "DMLC_NUM_SERVER", 1, 65536),
            own_host,
            number(variables, "PORT", 1, 65535) if variables.get("PORT") else None,
        )

    def variables(self) -> dict[str, str]:
        """Return the further variables that MXNet needs.

        A scheduler binds its own root URI, which fails for a name unless DMLC_USE_KUBERNETES makes
        it bind all addresses. For an IP address that would be wrong: members on one machine have
        one address each.
        """
        return {} if is_address(self.host, ipaddress.IPv4Address) else {"DMLC_USE_KUBERNETES": "1"}


def find(asked: str, variables: Mapping[str, str]) -> "DmlcRendezvous":
    """Read the environment of this worker."""
    member = DmlcMember.from_mapping(variables)
    if member is None:
        raise InputError(
            f"{asked}: needs a scheduler and servers, and DMLC_ROLE, the role of this "
            "process; write local or device to train in one process"
        )
    return DmlcRendezvous(member)


def local_members(workers: int, servers: int, free_port: Callable[[], int]) -> list[LocalMember]:
    """Return the scheduler, the servers and the workers."""
    common = {
        "DMLC_PS_ROOT_URI": LOOPBACK,
        "DMLC_PS_ROOT_PORT": str(free_port()),
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NODE_HOST": LOOPBACK,
    }
    roles = [*[DmlcRole.SERVER] * servers, *[DmlcRole.WORKER] * workers]
    return [
        LocalMember({**common, VARIABLE: DmlcRole.SCHEDULER}, is_worker=False),
        *(
            LocalMember(
                {**common, VARIABLE: role, "PORT": str(free_port())},
                is_worker=role is DmlcRole.WORKER,
            )
            for role in roles
        ),
    ]


class DmlcRendezvous:
    """The scheduler, servers and other workers; implements `Rendezvous`."""

    def __init__(self, member: DmlcMember) -> None:
        self._member = member

    def wait(self, timeout: float) -> IsHopeless:
        address = wait_for_scheduler(self._member, timeout)
        return functools.partial(is_gone, address, self._member.port)

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch MXNet's wait, which has no log line and no timeout."""
        others = f"{self._member.workers} workers and {self._member.servers} servers to join"
        return deadline(others, timeout, give_up)

    def explain(self, error: Exception) -> str | None:
        """Return None: MXNet does not detect a lost member of a parameter server."""
        return None


def wait_for_scheduler(member: DmlcMember, timeout: float) -> str:
    """Return the scheduler's IP address when this member may start MXNet.

    A scheduler waits until its own name resolves, because it sends that name to all and connects to
    it. Others wait until its port answers. ps-lite then resolves the name again, repeatedly if that
    fails. WorkloadError if the timeout is over; the message says what was missing.
    """
    if member.role is DmlcRole.SCHEDULER:
        wanted = f"its own name {member.host} to resolve"
        return keep_trying(lambda: resolve(member.host, member.port), member.role, wanted, timeout)
    return wait_for_port(member.role, "the scheduler", member.host, member.port, timeout)


@dataclass(frozen=True)
class Listener:
    """The listening socket of a member, and how many have connected to it.

    ps-lite connects all members to the scheduler, the scheduler and all workers to each server, and
    each of both to itself. So the established connections to a member's own port are those of the
    running members that have joined.

    Attributes:
        host: an IPv4 address, or a name that resolves to one.
        port: MXNet's port, not that of the metrics.
        expected: the number of connections when all members have joined.
        table: the kernel's table of connections.
    """

    host: str
    port: int
    expected: int
    table: Path = CONNECTIONS

    @classmethod
    def of(cls, member: DmlcMember) -> "Listener | None":
        """Return that of a scheduler or server; None if ps-lite chooses its port or address."""
        if member.role is DmlcRole.SCHEDULER:
            return cls(member.host, member.port, member.servers + member.workers + 1)
        if member.own_host is None or member.own_port is None:
            return None
        return cls(member.own_host, member.own_port, member.workers + 2)

    def missing(self) -> str | None:
        """Return how many members are not connected; None if all are.

        Probes and other connections count while they are open.
        """
        own = None
        with suppress(OSError):
            address = socket.inet_aton(socket.gethostbyname(self.host))
            # The kernel prints the address as a number in the machine's byte order.
            own = f"{int.from_bytes(address, sys.byteorder):08X}:{self.port:04X}"
        rows = (line.split() for line in self.table.read_text().splitlines()[1:])
        present = sum(row[1] == own and row[3] == _ESTABLISHED for row in rows)
        if present >= self.expected:
            return None
        # The first is the member itself.
        others = self.expected - 1
        return f"{others - max(present - 1, 0)} of {others} members to connect"
