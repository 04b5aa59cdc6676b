"""Who has joined a scheduler or server, as the kernel knows it; for MXNet's `server_process`.

Such a process sits in MXNet's C++, which says nothing until the job is over. But ps-lite connects
everyone to the scheduler, the scheduler and every worker to each server, and each of both to
itself, and a connection lasts as long as its two ends do. So the established connections to the
member's own port are those who have joined and still live.
"""

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole

# Of IPv4 only, and so is ps-lite.
CONNECTIONS = Path("/proc/self/net/tcp")
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Listener:
    """Where a member listens.

    Attributes:
        host: an IPv4 address, or a name that resolves to one.
        port: of MXNet's, not of the metrics.
        expected: connections when everyone has joined.
        table: the kernel's connections.
    """

    host: str
    port: int
    expected: int
    table: Path = CONNECTIONS

    @classmethod
    def of(cls, member: DmlcMember) -> "Listener | None":
        """Give a scheduler's or server's; None where its port or address is left to ps-lite."""
        if member.role is DmlcRole.SCHEDULER:
            return cls(member.host, member.port, member.servers + member.workers + 1)
        if member.own_host is None or member.own_port is None:
            return None
        return cls(member.own_host, member.own_port, member.workers + 2)

    def missing(self) -> str | None:
        """Say how many have not joined, or have left; None when everyone is there.

        Probes, and anyone else who connects without joining, count as long as they stay connected.
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
        # As the kernel prints it: the address as a number of this machine's byte order.
        own = f"{int.from_bytes(address, sys.byteorder):08X}:{self.port:04X}"
        rows = (line.split() for line in self.table.read_text().splitlines()[1:])
        return sum(row[1] == own and row[3] == _ESTABLISHED for row in rows)
