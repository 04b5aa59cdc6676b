"""Which member of a parameter-server job this process is, by the variables that MXNet reads."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from imagenet_workloads.errors import InputError


class Role(StrEnum):
    """What DMLC_ROLE can say."""

    SCHEDULER = "scheduler"
    SERVER = "server"
    WORKER = "worker"


@dataclass(frozen=True)
class Member:
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

    role: Role
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
            role = Role(variables["DMLC_ROLE"])
        except ValueError:
            raise InputError(
                f"DMLC_ROLE is {variables['DMLC_ROLE']!r}; write one of {', '.join(Role)}"
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
            _number(variables, "DMLC_PS_ROOT_PORT", 65535),
            _number(variables, "DMLC_NUM_WORKER"),
            _number(variables, "DMLC_NUM_SERVER"),
            own_host,
            _number(variables, "PORT", 65535) if variables.get("PORT") else None,
        )

    def variables(self) -> dict[str, str]:
        """Give what MXNet needs beside the variables that were read.

        A scheduler binds its own root URI, which fails for a name unless DMLC_USE_KUBERNETES makes
        it bind every address. For an IP address it would be wrong: members that share a machine
        have an address each.
        """
        return {} if _is_address(self.host, ipaddress.IPv4Address) else {"DMLC_USE_KUBERNETES": "1"}


def _number(variables: Mapping[str, str], name: str, most: int = 65536) -> int:
    text = variables.get(name, "")
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= most:
        raise InputError(f"{name} is {text!r}; write a whole number from 1 to {most}")
    return int(text)


def _is_address(host: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(host)
    except ValueError:
        return False
    return True
