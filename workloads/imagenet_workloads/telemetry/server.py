"""The HTTP server of a process: its metrics at /metrics, and its readiness at /readyz.

`/readyz?wait` answers as soon as the process is ready, or after `LONGEST_WAIT` seconds. A startup
probe asks it, because each probe that fails is a warning among the events of the pod.

Every program of a pod starts it first. It listens on the pod's own address, and uses no DNS, which
may not be available when pods start.
"""

import ipaddress
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import TCPServer
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.limited_connections import LimitedConnections, LimitedRequest
from imagenet_workloads.telemetry.registry import Registry

_log = logging.getLogger(__name__)

ANY_ADDRESS = "0.0.0.0"
# Below the timeout of the startup probe, and the limit of a connection.
LONGEST_WAIT = 50.0
_POLL_INTERVAL = 0.5

# Returns what a process still waits for; None if it is ready.
Readiness = Callable[[], str | None]


def at_once() -> None:
    """Return None: the readiness of a program that is ready as soon as it runs."""


class Metrics(Protocol):
    """Metrics that can be served.

    Attributes:
        exported: The registry, collected at each scrape.
    """

    exported: CollectorRegistry


@dataclass(frozen=True)
class MetricsServer:
    """A running server; its threads are daemons, so a program may end without closing it.

    Attributes:
        address: Its IP address.
        port: Its port.
    """

    address: str
    port: int
    _server: WSGIServer
    _thread: threading.Thread

    def close(self) -> None:
        """Stop the server and release the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    metrics: Metrics, environment: Environment, readiness: Readiness = at_once
) -> MetricsServer | None:
    """Serve `metrics` on POD_IP (by default any address) at IMAGENET_METRICS_PORT.

    Returns None if the port is 0 or unset. If the port cannot be opened, it logs a warning and
    returns None: a long training must not fail because of its metrics.

    Args:
        metrics: The metrics.
        environment: The pod's environment.
        readiness: The readiness for /readyz, which answers 200 or 503.
    """
    if environment.metrics_port == 0:
        return None
    address = environment.pod_ip or ANY_ADDRESS
    try:
        server = _Server((address, environment.metrics_port), _QuietHandler)
    except (OSError, ValueError) as error:
        _log.warning(
            "no metrics are served: cannot listen on %s port %d: %s",
            address,
            environment.metrics_port,
            getattr(error, "strerror", None) or error,
        )
        return None
    server.set_app(_application(metrics, readiness))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    _start_deaf(thread)
    return MetricsServer(address, environment.metrics_port, server, thread)


def _start_deaf(thread: threading.Thread) -> None:
    """Start a thread that blocks signals, as do the threads that it starts.

    A signal for the process goes to any thread that does not block it. There it would end a
    launcher that waits for signals in the main thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(environment: Environment, readiness: Readiness = at_once) -> Registry:
    """Create the process's registry, and serve it if the environment asks for it."""
    registry = Registry(environment)
    serve(registry, environment, readiness)
    return registry


class _Server(LimitedConnections, WSGIServer):
    """Handles each request in a separate thread, so that no probe waits for a slow scraper."""

    longest_seconds = 60.0

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        version = ipaddress.ip_address(address[0]).version
        self.address_family = socket.AF_INET6 if version == 6 else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which makes a DNS request for the address.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _QuietHandler(LimitedRequest, WSGIRequestHandler):
    """Do not log requests."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def _application(metrics: Metrics, readiness: Readiness) -> Callable[..., Iterable[bytes]]:
    show = make_wsgi_app(metrics.exported)

    def answer(request: dict[str, Any], respond: Callable[..., object]) -> Iterable[bytes]:
        if request["PATH_INFO"] != "/readyz":
            answered: Iterable[bytes] = show(request, respond)
            return answered
        missing = readiness()
        ends = time.monotonic() + (LONGEST_WAIT if request["QUERY_STRING"] == "wait" else 0)
        while missing is not None and time.monotonic() < ends:
            time.sleep(_POLL_INTERVAL)
            missing = readiness()
        status = "200 OK" if missing is None else "503 Service Unavailable"
        respond(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{missing or 'ok'}\n".encode()]

    return answer
