"""Serves a process's metrics over HTTP at /metrics, on the pod's own address.

Every program of a pod starts this before its work, a parameter server before `import mxnet`.
"""

import logging
import threading
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.registry import Registry

_log = logging.getLogger(__name__)

ANY_ADDRESS = "0.0.0.0"


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


def serve(registry: Registry, environment: Environment) -> MetricsServer | None:
    """Starts to serve `registry` on POD_IP (any address where unset) at IMAGENET_METRICS_PORT.

    Returns None where the port is 0 or unset, and where it cannot be opened: a training of days
    must not fail over its metrics, so that is a warning.
    """
    if environment.metrics_port == 0:
        return None
    address = environment.pod_ip or ANY_ADDRESS
    try:
        server, thread = start_http_server(
            environment.metrics_port, addr=address, registry=registry.exported
        )
    except OSError as error:
        _log.warning(
            "no metrics are served: cannot listen on %s port %d: %s",
            address,
            environment.metrics_port,
            error.strerror or error,
        )
        return None
    return MetricsServer(address, environment.metrics_port, server, thread)


def start(environment: Environment) -> Registry:
    """Makes the process's registry and serves it if the environment asks for that."""
    registry = Registry(environment)
    serve(registry, environment)
    return registry
