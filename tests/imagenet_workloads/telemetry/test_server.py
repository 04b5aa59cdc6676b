import http.client
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from imagenet_spec import metrics
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server as telemetry_server
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.server import serve, start
from support import loopback


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
        "import imagenet_workloads.telemetry.preparation, imagenet_workloads.telemetry.log\n"
        "sys.exit(bool({'mxnet', 'cv2', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
