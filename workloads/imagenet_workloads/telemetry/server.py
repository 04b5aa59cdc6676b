"""The HTTP server of a process: its metrics at /metrics, and its readiness at /readyz.

`/readyz?wait` answers as soon as the process is ready, or after `LONGEST_WAIT` seconds. A startup
probe asks it, because each probe that fails is a warning among the events of the pod.

Every program of a pod starts it first. It listens on the pod's own address, and uses no DNS, which
may not be available when pods start.
"""

import io
import ipaddress
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from socketserver import StreamRequestHandler, TCPServer, ThreadingMixIn
from typing import Any, Protocol, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from imagenet_spec.metrics import LABELS, Metric
from imagenet_workloads.environment import Environment

_Kind = TypeVar("_Kind", Counter, Gauge)


class Registry(Collector):
    """The metrics of this process; thread-safe.

    A metric appears when it is first written, so an accuracy that is not measured yet is absent,
    not 0. A gauge can be removed again. `exported` is the registry to serve.
    """

    def __init__(self, environment: Environment) -> None:
        # Otherwise each counter has a second series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        attempt = "" if environment.attempt is None else str(environment.attempt)
        values = (environment.job, environment.namespace, str(environment.role or ""), attempt)
        self._labels = dict(zip(LABELS, values, strict=True))
        self._lock = threading.Lock()
        self._families: dict[str, Any] = {}
        # What is not exported yet: a step changes a dozen values, and few are ever scraped.
        self._added: dict[tuple[str, ...], tuple[Metric, float]] = {}
        self._newest: dict[tuple[str, ...], tuple[Metric, float]] = {}
        self._before_scrape: list[Callable[[], None]] = []
        self._unlabelled = CollectorRegistry()
        ProcessCollector(registry=self._unlabelled)
        self.exported = CollectorRegistry()
        self.exported.register(self)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter, by the values of its own labels; an amount of 0 makes it appear."""
        series = (metric.name, *labels)
        with self._lock:
            _, before = self._added.get(series, (metric, 0.0))
            self._added[series] = metric, before + amount

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        with self._lock:
            self._newest[metric.name, *labels] = metric, value

    def remove(self, metric: Metric) -> None:
        """Leave out a gauge without labels of its own, until it is set again."""
        with self._lock:
            self._newest.pop((metric.name,), None)
            if (family := self._families.pop(metric.name, None)) is not None:
                self._unlabelled.unregister(family)

    def observe(self, metric: Metric, value: float) -> None:
        with self._lock:
            histogram = self._families.get(metric.name)
            if histogram is None:
                histogram = self._families[metric.name] = Histogram(
                    metric.name, metric.help, buckets=metric.buckets, registry=self._unlabelled
                )
        histogram.observe(value)

    def before_scrape(self, update: Callable[[], None]) -> None:
        """Call `update` before each scrape, for metrics that change without an event."""
        self._before_scrape.append(update)

    def collect(self) -> Iterable[Family]:
        """Yield every family with the fixed labels on each sample; prometheus_client calls this."""
        for update in self._before_scrape:
            update()
        with self._lock:
            for (_, *labels), (metric, amount) in self._added.items():
                self._series(Counter, metric, labels).inc(amount)
            for (_, *labels), (metric, value) in self._newest.items():
                self._series(Gauge, metric, labels).set(value)
            self._added.clear()
            self._newest.clear()
        for family in self._unlabelled.collect():
            family.samples = [
                sample._replace(labels={**self._labels, **sample.labels})
                for sample in family.samples
            ]
            yield family

    def _series(self, kind: type[_Kind], metric: Metric, labels: Sequence[str]) -> _Kind:
        family: _Kind | None = self._families.get(metric.name)
        if family is None:
            family = self._families[metric.name] = kind(
                metric.name, metric.help, metric.labels, registry=self._unlabelled
            )
        return family.labels(*labels) if labels else family


class LimitedConnections(ThreadingMixIn, TCPServer):
    """Handles each connection in a thread, and closes those that last too long.

    Any pod may connect where no NetworkPolicy is enforced. So a slow or endless request must not
    use up threads or memory, nor keep others from an answer. Horovod's rendezvous uses it too. If
    all threads are taken, the oldest connection is closed: a new one, which may be a scrape, waits
    for no slow client.
    """

    daemon_threads = True
    # A burst waits here instead of connecting again after a second.
    request_queue_size = 1024
    most_connections = 16
    longest_seconds = 10.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._begun: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            if len(self._begun) >= self.most_connections:
                _close(next(iter(self._begun)))
                self._changed.wait_for(lambda: len(self._begun) < self.most_connections)
            self._begun[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: Any) -> None:
        with self._changed:
            self._begun.pop(request, None)
            self._changed.notify()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, but not that a client has left or was closed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def service_actions(self) -> None:
        """Close connections that last too long; called every half second."""
        super().service_actions()
        with self._changed:
            oldest = time.monotonic() - self.longest_seconds
            for request, begun in self._begun.items():
                if begun < oldest:
                    _close(request)


def _close(request: socket.socket) -> None:
    """Let the thread of a connection end: what it reads is empty, what it writes fails."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class LimitedRequest(StreamRequestHandler):
    """Reads at most `most_bytes` of a request; the rest seems not to be there."""

    most_bytes = 2**14

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Limited(self.rfile, self.most_bytes))


class _Limited(io.RawIOBase):
    def __init__(self, file: Any, most_bytes: int) -> None:
        self._file, self._left = file, most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.readinto1(memoryview(buffer)[: self._left])
        self._left -= read
        return int(read)

    def close(self) -> None:
        self._file.close()
        super().close()


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
    """Metrics that can be served, collected at each scrape."""

    exported: CollectorRegistry


@dataclass(frozen=True)
class MetricsServer:
    """A running server; its threads are daemons, so a program may end without closing it."""

    address: str
    port: int
    _server: WSGIServer
    _thread: threading.Thread

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    metrics: Metrics, environment: Environment, readiness: Readiness = at_once
) -> MetricsServer | None:
    """Serve `metrics` on POD_IP (by default any address) at IMAGENET_METRICS_PORT.

    Returns None if the port is 0 or unset. If the port cannot be opened, it logs a warning and
    returns None: a long training must not fail because of its metrics. /readyz answers 200 or 503.
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
    # A signal for the process goes to any thread that does not block it. In this one, or those that
    # it starts, it would end a launcher that waits for signals in the main thread.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return MetricsServer(address, environment.metrics_port, server, thread)


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
