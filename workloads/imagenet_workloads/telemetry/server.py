"""Serves a process's metrics at /metrics, and whether it is at work at /readyz, over HTTP.

Every program of a pod starts this before its work. It listens on the pod's own address, and never
asks a name server: pods start while there may be none.
"""

import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.registry import Registry

_log = logging.getLogger(__name__)

ANY_ADDRESS = "0.0.0.0"

# Says what a process still waits for; None when it is at work.
Readiness = Callable[[], str | None]


def at_once() -> None:
    """Wait for nothing: the readiness of a program that is at work as soon as it runs."""


class Metrics(Protocol):
    """What can be served.

    Attributes:
        exported: collected at each scrape.
    """

    exported: CollectorRegistry


@dataclass(frozen=True)
class MetricsServer:
    """A running server; its threads are daemons, so it needs no closing at the end of a program.

    Attributes:
        address: the IP address that it listens on.
        port: likewise the port.
    """

    address: str
    port: int
    _server: WSGIServer
    _thread: threading.Thread

    def close(self) -> None:
        """Stops serving and frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    metrics: Metrics, environment: Environment, readiness: Readiness = at_once
) -> MetricsServer | None:
    """Starts to serve `metrics` on POD_IP (any address where unset) at IMAGENET_METRICS_PORT.

    Returns None where the port is 0 or unset, and where it cannot be opened: a training of days
    must not fail over its metrics, so that is a warning.

    Args:
        metrics: what /metrics shows.
        environment: the pod's.
        readiness: what /readyz tells, with 200 when at work and 503 before.
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
    """Start a thread that takes no signals, nor do those that it starts.

    A signal for the process goes to any thread that does not block it, and has its usual effect
    there: a launcher that waits for its signals in the main thread would die of them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(environment: Environment, readiness: Readiness = at_once) -> Registry:
    """Makes the process's registry and serves it if the environment asks for that."""
    registry = Registry(environment)
    serve(registry, environment, readiness)
    return registry


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread of its own: no probe waits for a slow scraper."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        version = ipaddress.ip_address(address[0]).version
        self.address_family = socket.AF_INET6 if version == 6 else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks a name server for the address's name.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _QuietHandler(WSGIRequestHandler):
    """Leaves requests out of the log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def _application(metrics: Metrics, readiness: Readiness) -> Callable[..., Iterable[bytes]]:
    show = make_wsgi_app(metrics.exported)

    def answer(request: dict[str, Any], respond: Callable[..., object]) -> Iterable[bytes]:
        if request["PATH_INFO"] != "/readyz":
            answered: Iterable[bytes] = show(request, respond)
            return answered
        missing = readiness()
        status = "200 OK" if missing is None else "503 Service Unavailable"
        respond(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{missing or 'ok'}\n".encode()]

    return answer
