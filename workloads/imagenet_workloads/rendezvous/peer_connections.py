"""Counts the members connected to a scheduler or server, for MXNet's `server_process`.

Such a process stays in MXNet's C++, which reports nothing. But ps-lite connects all members to the
scheduler, the scheduler and all workers to each server, and each of both to itself. So the
established connections to the member's own port are those of the running members that have joined.
"""

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole

# Only IPv4, as in ps-lite.
CONNECTIONS = Path("/proc/self/net/tcp")
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Listener:
    """The listening socket of a member.

    Attributes:
        host: An IPv4 address, or a name that resolves to one.
        port: MXNet's port, not that of the metrics.
        expected: The number of connections when all members have joined.
        table: The kernel's table of connections.
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
        present = self._connections()
        if present >= self.expected:
            return None
        # The first is the member itself.
        others = self.expected - 1
        return f"{others - max(present - 1, 0)} of {others} members to connect"

    def _connections(self) -> int:
        try:
            address = socket.inet_aton(socket.gethostbyname(self.host))
        except OSError:
            return 0
        # The kernel prints the address as a number in the machine's byte order.
        own = f"{int.from_bytes(address, sys.byteorder):08X}:{self.port:04X}"
        rows = (line.split() for line in self.table.read_text().splitlines()[1:])
        return sum(row[1] == own and row[3] == _ESTABLISHED for row in rows)
