"""Loopback addresses for the pods of one run: 127.A.B.2 and up, from a /24 block of this run.

Pods use the same ports as in a cluster, so each pod needs its own address, and runs must not share
addresses. A run claims 127.A.B.0/24 by a socket bound to 127.A.B.1. The kernel closes the socket
when the last process that holds it has died.
"""

import errno
import random
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address
from types import MappingProxyType

from imagenet_operator.clusters.interface import LocalError

ANCHOR_PORT = 9089
"""The port of the socket that claims a block; below the ephemeral ports."""

FIRST, LAST = 2, 254
_TRIES = 64
# A port may be in use in one block by chance; if it is in use in all of these, it is everywhere.
_BLOCKS = 4
_LISTENER = re.compile(r"(?<![\d.])(127\.\d{1,3}\.\d{1,3}\.\d{1,3}):(\d{1,5})\b")
_STOP = "stop that program during this run"


class AddressBlock:
    """The addresses of one run.

    Args:
        anchor: A socket bound to 127.A.B.1, which holds the claim while it is open.
    """

    def __init__(self, anchor: socket.socket) -> None:
        self._anchor = anchor
        self._prefix = anchor.getsockname()[0].rpartition(".")[0]
        self._given: dict[str, int] = {}
        self._last_given = FIRST - 1

    def fileno(self) -> int:
        """The descriptor of the claim; processes that inherit it keep the claim."""
        return self._anchor.fileno()

    def of(self, name: str) -> str:
        """Return the address of a pod, the same until it is released.

        Addresses are reused as late as possible, so that a stale peer does not connect to a new
        pod.

        Raises:
            LocalError: Every address is in use.
        """
        if name not in self._given:
            taken = set(self._given.values())
            free = next((number for number in self._round() if number not in taken), None)
            if free is None:
                raise LocalError(f"a local run holds at most {LAST - FIRST + 1} pods at one time")
            self._given[name] = self._last_given = free
        return f"{self._prefix}.{self._given[name]}"

    def release(self, name: str) -> None:
        """Release the address of a pod."""
        self._given.pop(name, None)

    def close(self) -> None:
        """Release the claim of this process."""
        self._anchor.close()

    def _round(self) -> Iterator[int]:
        yield from range(self._last_given + 1, LAST + 1)
        yield from range(FIRST, self._last_given + 1)


def claim(
    ports: Iterable[int] = (), remedies: Mapping[int, str] = MappingProxyType({})
) -> AddressBlock:
    """Claim a block that no other run on this machine holds.

    Args:
        ports: The ports that pods will listen on, which are checked now.
        remedies: What to do if a port is in use, if there is a choice.

    Raises:
        LocalError: Another program listens on one of the ports on all addresses.
    """
    wanted = tuple(ports)
    passed_over = 0
    while True:
        anchor = _anchor()
        taken = _first_taken(anchor.getsockname()[0], wanted)
        if taken is None:
            return AddressBlock(anchor)
        anchor.close()
        passed_over += 1
        if passed_over == _BLOCKS:
            port, error = taken
            raise LocalError(
                f"port {port} cannot be used on this machine's loopback addresses "
                f"({error.strerror}): a program listens on it on all addresses, for example "
                f"0.0.0.0:{port}; {remedies.get(port, _STOP)}"
            ) from error


def with_own_ports(text: str) -> str:
    """Give each address in a text a port that no other address has.

    TensorFlow's server listens on all addresses of a machine, whatever TF_CONFIG says. So the
    second worker would find its port in use. Every worker computes the same ports.

    Args:
        text: The value of a variable, with addresses as 127.A.B.C:PORT.
    """
    return _LISTENER.sub(_own_port, text)


def _own_port(found: re.Match[str]) -> str:
    host, port = found.groups()
    # Below the ephemeral ports, and above the members' ports in a cluster.
    return f"{host}:{20_000 + (int(IPv4Address(host)) + int(port)) % 12_000}"


def _first_taken(host: str, ports: Iterable[int]) -> tuple[int, OSError] | None:
    for port in ports:
        try:
            _bind(host, port).close()
        except OSError as error:
            return port, error
    return None


def _anchor() -> socket.socket:
    """Bind the anchor of a free block, chosen at random from the middle of 127.0.0.0/8."""
    for _ in range(_TRIES):
        host = f"127.{random.randint(16, 250)}.{random.randint(0, 255)}.1"
        try:
            return _bind(host, ANCHOR_PORT)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LocalError(
                    f"cannot bind the loopback address {host} ({error.strerror}); "
                    "a local run needs all of 127.0.0.0/8, as Linux has it"
                ) from error
    raise LocalError(
        f"no free block of loopback addresses in {_TRIES} tries: a program listens on "
        f"0.0.0.0:{ANCHOR_PORT}, which a local run needs; stop it during this run"
    )


def _bind(host: str, port: int) -> socket.socket:
    """Return a TCP socket bound without SO_REUSEADDR, so that a second one fails."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
