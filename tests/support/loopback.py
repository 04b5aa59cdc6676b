"""Loopback addresses for the processes of a test that keep to fixed ports.

Runs of `imagenetctl` claim theirs from 127.16.0.0 on, so a test takes a network below that. A
process holds a socket in its block until it ends. So no two tests share a block, neither at one
time nor in the kernel's memory of a connection.
"""

import secrets
import socket

_HOLD = 9089
_held: list[socket.socket] = []


def network() -> str:
    """127.A.B, of a /24 that no other test has."""
    while True:
        prefix = f"127.{1 + secrets.randbelow(15)}.{secrets.randbelow(256)}"
        hold = socket.socket()
        try:
            hold.bind((f"{prefix}.255", _HOLD))
        except OSError:
            hold.close()
            continue
        _held.append(hold)
        return prefix
