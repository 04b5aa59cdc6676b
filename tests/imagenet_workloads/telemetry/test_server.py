import http.client
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from imagenet_spec import metrics
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server as telemetry_server
from imagenet_workloads.telemetry.server import LimitedConnections, Registry, serve, start
from support import loopback
from support.processes import DEADLINE_SECONDS, wait_until
from support.training_cluster import METRICS_PORT, ask, plain_environment


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """An address of this test's own, and a port that is free there."""
    ip = f"{loopback.network()}.1"
    with socket.socket() as probe:
        probe.bind((ip, 0))
        port = probe.getsockname()[1]
    yield ip, port


def scrape(ip: str, port: int) -> str:
    with urllib.request.urlopen(f"http://{ip}:{port}/metrics", timeout=30) as response:
        return str(response.read().decode())


def test_a_scrape_shows_what_was_recorded(address: tuple[str, int]) -> None:
    environment = Environment(
        pod_ip=address[0], metrics_port=address[1], job="digits", role="worker", attempt=0
    )
    registry = Registry(environment)
    registry.add(metrics.TRAIN_IMAGES, 512)
    server = serve(registry, environment)
    assert server is not None
    try:
        assert (server.address, server.port) == address
        text = scrape(*address)
    finally:
        server.close()
    labels = 'attempt="0",imagenet_job="digits",namespace="default",role="worker"'
    assert f"imagenet_train_images_total{{{labels}}} 512.0\n" in text
    assert "# TYPE imagenet_train_images_total counter\n" in text
    with socket.socket() as probe:
        assert probe.connect_ex(address) != 0, "still listening after close"


def status_of(ip: str, port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(ip, port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_readiness_tells_what_is_missing(address: tuple[str, int]) -> None:
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    missing: list[str | None] = ["2 of 3 members to join"]
    server = serve(Registry(environment), environment, lambda: missing[0])
    assert server is not None
    try:
        assert status_of(*address, "/readyz") == (503, "2 of 3 members to join\n")
        assert status_of(*address, "/metrics")[0] == 200
        missing[0] = None
        assert status_of(*address, "/readyz") == (200, "ok\n")
    finally:
        server.close()


def test_a_probe_that_waits_is_answered_once_the_program_is_ready(
    address: tuple[str, int],
) -> None:
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    answers = iter(["1 of 3 members to join", "2 of 3 members to join", None])
    server = serve(Registry(environment), environment, lambda: next(answers))
    assert server is not None
    assert status_of(*address, "/readyz?wait") == (200, "ok\n")
    server.close()


def test_a_probe_that_waits_is_told_what_is_missing_at_last(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_server, "LONGEST_WAIT", 0.3)
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    server = serve(Registry(environment), environment, lambda: "2 of 3 members to join")
    assert server is not None
    assert status_of(*address, "/readyz?wait") == (503, "2 of 3 members to join\n")
    server.close()


def test_a_program_that_waits_for_nothing_is_ready_at_once(address: tuple[str, int]) -> None:
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    server = serve(Registry(environment), environment)
    assert server is not None
    assert status_of(*address, "/readyz") == (200, "ok\n")
    server.close()


def test_no_name_server_is_asked(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(socket, "gethostbyaddr", lambda *_: pytest.fail("asked"))
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    server = serve(Registry(environment), environment)
    assert server is not None
    assert status_of(*address, "/metrics")[0] == 200
    server.close()


def test_it_listens_on_the_pod_s_own_address_only(address: tuple[str, int]) -> None:
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    server = serve(Registry(environment), environment)
    assert server is not None
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", address[1])) != 0
    server.close()


def test_without_a_port_nothing_is_served() -> None:
    environment = Environment(pod_ip="127.0.0.1")
    assert serve(Registry(environment), environment) is None
    assert isinstance(start(environment), Registry)


def test_a_port_that_is_taken_is_a_warning(
    address: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    environment = Environment(pod_ip=address[0], metrics_port=address[1])
    with socket.socket() as other:
        other.bind(address)
        other.listen()
        assert serve(Registry(environment), environment) is None
    assert f"cannot listen on {address[0]} port {address[1]}: Address already in use" in caplog.text


def test_it_is_up_before_mxnet_or_opencv_is_imported() -> None:
    program = (
        "import sys, imagenet_workloads.telemetry.server, imagenet_workloads.telemetry.training\n"
        "import imagenet_workloads.telemetry.preparation, imagenet_workloads.telemetry.event_log\n"
        "sys.exit(bool({'mxnet', 'cv2', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


SERVE = """
import os, signal
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.server import LimitedConnections
for kind in LimitedConnections.__subclasses__():
    kind.longest_seconds = {longest_seconds}
server.start(Environment.from_mapping(os.environ))
signal.pause()
"""
MEBIBYTE = 2**20


class Server:
    """A process that serves its metrics."""

    def __init__(self, longest_seconds: float) -> None:
        self.address = (f"{loopback.network()}.1", METRICS_PORT)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE.format(longest_seconds=longest_seconds)],
            env=plain_environment(POD_IP=self.address[0], IMAGENET_METRICS_PORT=str(METRICS_PORT)),
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: self.get("/readyz") == (200, "ok"), "it serves")

    def get(self, path: str) -> tuple[int, str]:
        return ask(*self.address, path)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=DEADLINE_SECONDS)

    def status(self, field: str) -> int:
        """A number of /proc/PID/status, such as its threads, or KiB of memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])

    def scrape(self) -> None:
        """Ask for the metrics; fails without an answer."""
        status, page = self.get("/metrics")
        assert status == 200 and "process_cpu_seconds_total" in page

    def end(self) -> str:
        """What it has written to stderr."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(longest_seconds=3600)
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
def test_a_thousand_connections_keep_no_scrape_from_its_answer(server: Server) -> None:
    server.scrape()
    memory, threads = server.status("VmRSS"), server.status("Threads")
    with ExitStack() as stack:
        for number in range(1000):
            client = stack.enter_context(server.connect())
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
            if number % 100 == 99:
                # Answered while all clients are open: the server closes none of them for its age.
                server.scrape()
        assert server.status("Threads") <= threads + LimitedConnections.most_connections
        assert server.status("VmRSS") - memory < 20 * 1024
    assert server.end() == ""


@pytest.mark.parametrize("piece", [b"a", b"X-Header: 1\r\n"], ids=["line", "headers"])
def test_an_endless_request_takes_no_memory(server: Server, piece: bytes) -> None:
    server.scrape()
    memory = server.status("VmRSS")
    block = piece * (MEBIBYTE // len(piece))
    for _ in range(20):
        with server.connect() as client, suppress(ConnectionError):
            client.sendall(b"GET /metrics")
            for _ in range(100):
                client.sendall(block)
    server.scrape()
    assert server.status("VmRSS") - memory < 20 * 1024
    assert server.end() == ""


def test_a_client_that_sends_a_byte_at_a_time_is_closed() -> None:
    server = Server(longest_seconds=0.5)
    with server.connect() as client:
        client.settimeout(0.1)
        answer: bytes | None = None
        while answer is None:
            # The end can be read also after a byte that nobody takes.
            with suppress(BrokenPipeError):
                client.sendall(b"G")
            with suppress(TimeoutError):
                answer = client.recv(1)
    assert answer == b""
    assert server.end() == ""


WORKER = Environment(job="digits", namespace="vision", role="worker", attempt=2)
LABELS = {"imagenet_job": "digits", "namespace": "vision", "role": "worker", "attempt": "2"}


@pytest.fixture
def registry() -> Registry:
    return Registry(WORKER)


def value(registry: Registry, name: str, **more: str) -> float | None:
    return registry.exported.get_sample_value(name, {**LABELS, **more})


def test_a_metric_is_absent_until_it_has_a_value(registry: Registry) -> None:
    assert "imagenet_" not in generate_latest(registry.exported).decode().replace(
        "imagenet_job", ""
    )
    registry.set(metrics.TRAIN_VALIDATION_TOP1, 0.0)
    assert value(registry, "imagenet_train_validation_top1") == 0.0


def test_every_series_carries_the_fixed_labels(registry: Registry) -> None:
    registry.add(metrics.TRAIN_IMAGES, 1)
    registry.set(metrics.TRAIN_EPOCH, 1)
    registry.observe(metrics.TRAIN_STEP_SECONDS, 1)
    samples = [sample for family in registry.exported.collect() for sample in family.samples]
    for sample in samples:
        assert LABELS.items() <= sample.labels.items(), sample.name
    assert {sample.name for sample in samples} >= {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    }


def test_by_hand_role_and_attempt_are_empty() -> None:
    registry = Registry(Environment())
    registry.set(metrics.TRAIN_EPOCH, 1)
    labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
    assert registry.exported.get_sample_value("imagenet_train_epoch", labels) == 1


def test_counters_add_gauges_replace_histograms_sort(registry: Registry) -> None:
    for amount in (0, 2, 3):
        registry.add(metrics.TRAIN_IMAGES, amount)
        registry.set(metrics.TRAIN_LOSS, amount)
        registry.observe(metrics.TRAIN_STEP_SECONDS, amount)
    assert value(registry, "imagenet_train_images_total") == 5
    assert value(registry, "imagenet_train_loss") == 3
    assert value(registry, "imagenet_train_step_seconds_count") == 3
    assert value(registry, "imagenet_train_step_seconds_sum") == 5
    assert value(registry, "imagenet_train_step_seconds_bucket", le="2.5") == 2


def test_each_registry_is_its_own(registry: Registry) -> None:
    other = Registry(WORKER)
    registry.add(metrics.TRAIN_IMAGES, 5)
    other.add(metrics.TRAIN_IMAGES, 1)
    assert value(registry, "imagenet_train_images_total") == 5
    assert value(other, "imagenet_train_images_total") == 1


def test_no_second_series_for_the_time_of_creation(registry: Registry) -> None:
    registry.add(metrics.TRAIN_IMAGES, 1)
    assert "_created" not in generate_latest(registry.exported).decode()


def test_threads_lose_nothing(registry: Registry) -> None:
    def work(_: int) -> None:
        for _ in range(500):
            registry.add(metrics.PREPARE_IMAGES, 1)
            registry.observe(metrics.TRAIN_STEP_SECONDS, 0.1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert value(registry, "imagenet_prepare_images_total") == 4000
    assert value(registry, "imagenet_train_step_seconds_count") == 4000
