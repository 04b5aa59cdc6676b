"""Horovod's rendezvous server, where the slots of an attempt exchange their addresses.

`commands.rendezvous` calls `run`. Slots publish their addresses here and read those of the others.
Then they communicate directly, but the attempt still ends if this member ends.
"""

import logging
import socketserver
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.rendezvous import number
from imagenet_workloads.telemetry import server

_log = logging.getLogger(__name__)

HOSTS = "IMAGENET_HOROVOD_HOSTS"
PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
# The scope in which a slot first publishes its address, under its rank.
_GLOBAL = "global"


class Arrivals:
    """The slots that have published their address."""

    def __init__(self, expected: int) -> None:
        self._expected, self._ranks, self._lock = expected, set[str](), threading.Lock()

    def note(self, path: str) -> None:
        """Record the path of a value that a slot has published."""
        scope, _, rank = path.strip("/").partition("/")
        # A slot also publishes its host name, under rank_N.
        if scope != _GLOBAL or not rank.isdecimal():
            return
        with self._lock:
            self._ranks.add(rank)
            if len(self._ranks) == self._expected:
                _log.info("all %d slots have joined", self._expected)

    def missing(self) -> str | None:
        """Return how many slots have not joined; None if all have."""
        left = self._expected - len(self._ranks)
        return f"{left} of {self._expected} slots to join" if left > 0 else None


def read_hosts(variables: Mapping[str, str]) -> list[tuple[str, int]]:
    """Parse the host assignments, such as "digits-worker-0:2,digits-worker-1:2".

    Raises:
        InputError: The variable is missing or invalid.
    """
    text = variables.get(HOSTS, "")
    hosts = []
    for part in text.split(","):
        name, _, slots = part.strip().rpartition(":")
        if not name or not slots.isascii() or not slots.isdecimal() or int(slots) < 1:
            raise InputError(f"{HOSTS} is {text!r}; write NAME:SLOTS,NAME:SLOTS,…")
        hosts.append((name, int(slots)))
    if len({name for name, _ in hosts}) < len(hosts):
        raise InputError(f"{HOSTS} is {text!r}; a name may occur once")
    return hosts


def run(variables: Mapping[str, str]) -> None:
    """Serve until SIGTERM.

    Raises:
        InputError: A variable is missing or invalid, or Horovod is not installed.
        WorkloadError: The port cannot be opened.
    """
    hosts = read_hosts(variables)
    port = number(variables, PORT, 1, 65535)
    environment = Environment.from_mapping(variables)
    address = environment.pod_ip or server.ANY_ADDRESS
    if ":" in address:
        raise InputError(
            f"POD_IP is {address}, and Horovod's rendezvous supports only IPv4; give the pods IPv4 "
            "addresses, or use another strategy"
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
        from horovod.runner.http.http_server import RendezvousHTTPServer
    except ImportError as error:
        raise InputError(f"Horovod is not installed: {error}") from error

    class Server(RendezvousHTTPServer):  # type: ignore[misc]
        # The end of this process waits for no request.
        daemon_threads = True
        request_queue_size = 1024

        def server_bind(self) -> None:
            # Not HTTPServer's, which makes a DNS request for the address.
            socketserver.TCPServer.server_bind(self)
            self.server_name, self.server_port = self.server_address[:2]

    made: Any = Server((address, port), _handler(arrivals), 0)
    slots = sum(count for _, count in hosts)
    # In this order: the socket accepts connections, but answers none before `init`.
    made.init(get_host_assignments([HostInfo(name, count) for name, count in hosts], slots))
    found: socketserver.TCPServer = made
    return found


def _handler(arrivals: Arrivals) -> type[BaseHTTPRequestHandler]:
    from horovod.runner.http.http_server import RendezvousHandler

    class Handler(RendezvousHandler):  # type: ignore[misc]
        def do_PUT(self) -> None:  # noqa: N802
            super().do_PUT()
            arrivals.note(self.path)

        def do_DELETE(self) -> None:  # noqa: N802
            """Record that a slot has read a scope, and clear the scope after the last slot.

            Horovod's own method then forgets who has read the other scopes. They are never
            cleared, and slots that meet again connect to old addresses.
            """
            scope, _, rank = self.path.strip("/").partition("/")
            if scope not in self.server.scope_size:
                super().do_DELETE()
                return
            with self.server.finished_list_lock:
                finished = self.server.finished_list[scope]
                finished.append(rank)
                if len(finished) == self.server.scope_size[scope]:
                    finished.clear()
                    with self.server.cache_lock:
                        self.server.cache.pop(scope, None)
            self.send_status_code(HTTPStatus.OK)

    return Handler
