"""A parameter server's members, by the variables DMLC_* that MXNet reads: roles and waits.

ps-lite's scheduler opens its port when MXNet starts, whoever is missing. So servers and workers
wait for that port, and the scheduler waits until its own name resolves.
"""

import functools
import ipaddress
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous import IsHopeless, number
from imagenet_workloads.rendezvous.waiting import (
    connect,
    deadline,
    give_up,
    keep_trying,
    resolve,
    wait_for_port,
)

VARIABLE = "DMLC_ROLE"
# Seconds in which another's kernel answers, however busy its program is: enough for a first packet
# that is lost and, after 1 s, sent again.
ANSWER_TIMEOUT = 1.5


class DmlcRole(StrEnum):
    """What DMLC_ROLE can say."""

    SCHEDULER = "scheduler"
    SERVER = "server"
    WORKER = "worker"


@dataclass(frozen=True)
class DmlcMember:
    """One process of a parameter-server job.

    Attributes:
        role: DMLC_ROLE.
        host: DMLC_PS_ROOT_URI, the scheduler's name or IP address, the same text for everyone.
        port: DMLC_PS_ROOT_PORT.
        workers: DMLC_NUM_WORKER.
        servers: DMLC_NUM_SERVER.
        own_host: DMLC_NODE_HOST, the address that a server or worker binds; None is ps-lite's
            choice.
        own_port: PORT, likewise.
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
        """Read the environment; None where DMLC_ROLE is unset, which is a single process.

        Raises:
            InputError: a variable is missing or wrong.
        """
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
            if text is not None and _is_address(text, ipaddress.IPv6Address):
                raise InputError(
                    f"{name} is {text}, and members of MXNet's parameter server meet over IPv4 "
                    "alone; give their pods IPv4 addresses, or train by another strategy"
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
        """Give what MXNet needs beside the variables that were read.

        A scheduler binds its own root URI, which fails for a name unless DMLC_USE_KUBERNETES makes
        it bind every address. For an IP address it would be wrong: members that share a machine
        have an address each.
        """
        return {} if _is_address(self.host, ipaddress.IPv4Address) else {"DMLC_USE_KUBERNETES": "1"}


def _is_address(host: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(host)
    except ValueError:
        return False
    return True


def find(asked: str, variables: Mapping[str, str]) -> "DmlcRendezvous":
    """Read who this worker is.

    Raises:
        InputError: a variable is missing or wrong.
    """
    member = DmlcMember.from_mapping(variables)
    if member is None:
        raise InputError(
            f"{asked}: needs scheduler and servers, and DMLC_ROLE says which of them "
            "this is; write local or device to train in this process alone"
        )
    return DmlcRendezvous(member)


class DmlcRendezvous:
    """Scheduler, servers and other workers; implements `Rendezvous`."""

    def __init__(self, member: DmlcMember) -> None:
        """Take who this worker is."""
        self._member = member

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the scheduler listens; without it the whole attempt is being ended."""
        address = wait_for_scheduler(self._member, timeout)
        return functools.partial(scheduler_is_gone, address, self._member.port)

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch MXNet wait, which it does without a log line and without a timeout."""
        others = f"{self._member.workers} workers and {self._member.servers} servers to join"
        return deadline(others, timeout, give_up)

    def explain(self, error: Exception) -> str | None:
        """Give None: MXNet does not detect a lost member of a parameter server."""
        return None


def wait_for_scheduler(member: DmlcMember, timeout: float) -> str:
    """Return when this member may start MXNet.

    ps-lite resolves the name once more for itself, again and again where that fails.

    Args:
        member: who waits. A scheduler waits until its own name resolves, since it sends that name
            to everyone and connects to it itself; others until its port answers.
        timeout: seconds.

    Returns:
        the scheduler's IP address.

    Raises:
        WorkloadError: the time is over; says what was missing last.
    """
    if member.role is DmlcRole.SCHEDULER:
        wanted = f"its own name {member.host} to resolve"
        return keep_trying(lambda: resolve(member.host, member.port), member.role, wanted, timeout)
    return wait_for_port(member.role, "the scheduler", member.host, member.port, timeout)


def scheduler_is_gone(address: str, port: int) -> bool:
    """Whether nobody listens where the scheduler does: then the whole attempt is being ended.

    Asked by address, since a name that does not resolve for a moment says nothing. That nobody
    answers is an answer: none refuses a connection to the address of a pod that is gone, and to
    wait for that would be most of the time in which an attempt ends.
    """
    try:
        connect(address, port, ANSWER_TIMEOUT)
    except OSError:
        return True
    return False
