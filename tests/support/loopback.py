"""Loopback addresses and ports for the processes of a test that cannot ask the kernel for theirs.

Runs of `imagenetctl` claim addresses from 127.16.0.0 on, so a test takes a network below that. A
process holds a socket in its block until it ends. So no two tests share a block, neither at one
time nor in the kernel's memory of a connection.
"""

import secrets
import socket
from pathlib import Path

_HOLD = 9089
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_held: list[socket.socket] = []


def network() -> str:
    """127.A.B, of a /24 that no other test has."""
    while True:
        prefix = f"127.{1 + secrets.randbelow(15)}.{secrets.randbelow(256)}"
        if _hold(socket.socket(), (f"{prefix}.255", _HOLD)):
            return prefix


def free_port() -> int:
    """A port without a listener on any address, that neither kernel nor another test gives away.

    A process may take seconds until it listens. Meanwhile the kernel gives ephemeral ports to
    others: to servers that ask for any port, and to clients.
    """
    first, last = map(int, _EPHEMERAL.read_text().split())
    ports = range(10_000, 1 << 16)
    # Some machines give the kernel all of them.
    others = [port for port in ports if not first <= port <= last] or ports
    while True:
        port = secrets.choice(others)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        # A name that is no file, and is free again when the process ends.
        if _hold(socket.socket(socket.AF_UNIX), f"\0port {port} of a test"):
            return port


def _hold(lock: socket.socket, address: tuple[str, int] | str) -> bool:
    """Whether this process is the only one that has an address, until it ends."""
    try:
        lock.bind(address)
    except OSError:
        lock.close()
        return False
    _held.append(lock)
    return True
