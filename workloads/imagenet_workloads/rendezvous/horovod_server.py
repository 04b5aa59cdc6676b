"""Where the slots of an attempt find each other: Horovod's own rendezvous, with its telemetry.

`commands.rendezvous` calls `run`. Slots tell their addresses here and read those of the others;
then they talk to each other alone, but the attempt ends with this member as with any other.
"""

import logging
import socketserver
import threading
from collections.abc import Mapping
from typing import Any

from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.rendezvous import number
from imagenet_workloads.telemetry import server

_log = logging.getLogger(__name__)

HOSTS = "IMAGENET_HOROVOD_HOSTS"
PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
# Where a slot puts its address first, under its rank.
_GLOBAL = "global"


class Arrivals:
    """Which slots have told where they are."""

    def __init__(self, expected: int) -> None:
        self._expected, self._ranks, self._lock = expected, set[str](), threading.Lock()

    def note(self, path: str) -> None:
        """Take in the path of something that a slot has told."""
        scope, _, rank = path.strip("/").partition("/")
        # Beside its address a slot tells its host's name, under rank_N.
        if scope != _GLOBAL or not rank.isdecimal():
            return
        with self._lock:
            self._ranks.add(rank)
            if len(self._ranks) == self._expected:
                _log.info("all %d slots have come", self._expected)

    def missing(self) -> str | None:
        """Say how many have not come; None when all have."""
        left = self._expected - len(self._ranks)
        return f"{left} of {self._expected} slots to come" if left > 0 else None


def read_hosts(variables: Mapping[str, str]) -> list[tuple[str, int]]:
    """Read who runs how many slots, such as "digits-worker-0:2,digits-worker-1:2".

    Raises:
        InputError: the variable is missing or wrong.
    """
    text = variables.get(HOSTS, "")
    hosts = []
    for part in text.split(","):
        name, _, slots = part.strip().rpartition(":")
        if not name or not slots.isascii() or not slots.isdecimal() or int(slots) < 1:
            raise InputError(f"{HOSTS} is {text!r}; write NAME:SLOTS,NAME:SLOTS,…")
        hosts.append((name, int(slots)))
    if len({name for name, _ in hosts}) < len(hosts):
        raise InputError(f"{HOSTS} is {text!r}; a name may stand there once")
    return hosts


def run(variables: Mapping[str, str]) -> None:
    """Serve until the process is told to end.

    Raises:
        InputError: a variable is missing or wrong, or Horovod is not installed.
        WorkloadError: the port cannot be opened.
    """
    hosts = read_hosts(variables)
    port = number(variables, PORT, 1, 65535)
    environment = Environment.from_mapping(variables)
    address = environment.pod_ip or server.ANY_ADDRESS
    if ":" in address:
        raise InputError(
            f"POD_IP is {address}, and Horovod's rendezvous serves over IPv4 alone; give pods IPv4 "
            "addresses, or train by another strategy"
        )
    arrivals = Arrivals(sum(slots for _, slots in hosts))
    server.start(environment, arrivals.missing)
    try:
        rendezvous = _make(address, port, hosts, arrivals)
    except OSError as error:
        raise WorkloadError(f"cannot listen on {address} port {port}: {error.strerror}") from error
    _log.info("rendezvous for %s at %s:%d", variables[HOSTS], address, port)
    with rendezvous:
        rendezvous.serve_forever()


def _make(
    address: str, port: int, hosts: list[tuple[str, int]], arrivals: Arrivals
) -> socketserver.TCPServer:
    try:
        from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
        from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
    except ImportError as error:
        raise InputError(f"Horovod is not installed here: {error}") from error

    class Handler(RendezvousHandler):  # type: ignore[misc]
        def do_PUT(self) -> None:  # noqa: N802
            super().do_PUT()
            arrivals.note(self.path)

    class Server(RendezvousHTTPServer):  # type: ignore[misc]
        # Whoever ends this process waits for no request.
        daemon_threads = True
        request_queue_size = 1024

        def server_bind(self) -> None:
            # Not HTTPServer's, which asks a name server for the address's name.
            socketserver.TCPServer.server_bind(self)
            self.server_name, self.server_port = self.server_address[:2]

    made: Any = Server((address, port), Handler, 0)
    slots = sum(count for _, count in hosts)
    # In this order: the socket takes connections already, but nobody is answered before `init`.
    made.init(get_host_assignments([HostInfo(name, count) for name, count in hosts], slots))
    found: socketserver.TCPServer = made
    return found
