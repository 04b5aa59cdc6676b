"""`imagenet-rendezvous` as a process, asked as slots ask it."""

import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_spec import metrics
from support import loopback
from support.processes import DEADLINE_SECONDS, wait_until
from support.sentences import assert_says
from support.training_cluster import METRICS_PORT, ask, plain_environment

PORT = 9091


class Rendezvous:
    """One for two slots in a pod each."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "imagenet-rendezvous")],
            env=plain_environment(
                IMAGENET_HOROVOD_HOSTS="pod-0:1,pod-1:1",
                HOROVOD_GLOO_RENDEZVOUS_PORT=str(PORT),
                POD_IP=address,
                IMAGENET_ROLE="rendezvous",
                IMAGENET_METRICS_PORT=str(METRICS_PORT),
            ),
            stderr=subprocess.PIPE,
            text=True,
        )

    def request(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, PORT, timeout=DEADLINE_SECONDS)
        try:
            connection.request(method, path, body.encode())
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def refused(self) -> float:
        """How many requests it has refused, by its metrics."""
        page = ask(self.address, METRICS_PORT, "/metrics")[1]
        name = metrics.PEER_REQUESTS_REFUSED.name
        (line,) = (line for line in page.splitlines() if line.startswith(f"{name}{{"))
        return float(line.rpartition(" ")[2])

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.address, PORT)) == 0


@pytest.fixture
def address() -> str:
    """An address of this test's own."""
    return f"{loopback.network()}.1"


@pytest.fixture
def rendezvous(address: str) -> Iterator[Rendezvous]:
    made = Rendezvous(address)
    wait_until(made.listens, "it listens")
    yield made
    made.process.kill()
    made.process.wait()


def test_slots_find_what_others_have_told(rendezvous: Rendezvous) -> None:
    assert rendezvous.request("GET", "/global/1") == (404, "")
    assert rendezvous.request("PUT", "/global/1", "address of 1")[0] == 200
    assert rendezvous.request("GET", "/global/1") == (200, "address of 1")


def test_it_is_ready_when_all_have_come_and_stays_so(rendezvous: Rendezvous) -> None:
    def readiness() -> tuple[int, str]:
        return ask(rendezvous.address, METRICS_PORT, "/readyz")

    assert readiness() == (503, "2 of 2 slots to join")
    rendezvous.request("PUT", "/global/rank_0", "pod-0")
    rendezvous.request("PUT", "/global/0", "address of 0")
    assert readiness() == (503, "1 of 2 slots to join")
    rendezvous.request("PUT", "/global/1", "address of 1")
    assert readiness() == (200, "ok")
    # Everyone has read everyone's address: Horovod forgets them.
    for rank in ("0", "1"):
        rendezvous.request("DELETE", f"/global/{rank}")
    assert rendezvous.request("GET", "/global/1") == (404, "")
    assert readiness() == (200, "ok")


def test_its_metrics_are_those_of_a_member(rendezvous: Rendezvous) -> None:
    page = ask(rendezvous.address, METRICS_PORT, "/metrics")[1]
    labels = 'attempt="",imagenet_job="local",namespace="default",role="rendezvous"'
    assert f"process_cpu_seconds_total{{{labels}}}" in page


def test_sigterm_ends_it_at_once_whoever_is_connected(rendezvous: Rendezvous) -> None:
    with socket.create_connection((rendezvous.address, PORT)) as silent:
        silent.sendall(b"PUT /global/0 HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
        rendezvous.process.send_signal(signal.SIGTERM)
        _, error = rendezvous.process.communicate(timeout=60)
    assert rendezvous.process.returncode == 143
    assert "Traceback" not in error


def test_it_listens_on_its_own_address_only(rendezvous: Rendezvous) -> None:
    # Of the test's own network, where nobody else can listen.
    another = f"{rendezvous.address.rpartition('.')[0]}.2"
    with socket.socket() as probe:
        assert probe.connect_ex((another, PORT)) != 0


def test_a_port_that_is_taken_is_said(address: str) -> None:
    with socket.create_server((address, PORT)):
        _, error = Rendezvous(address).process.communicate(timeout=60)
    assert f"cannot listen on {address} port {PORT}: Address already in use" in error


def test_old_addresses_are_gone_when_all_slots_have_met(rendezvous: Rendezvous) -> None:
    """Slots that meet again read no address of the first time, whatever else is complete before."""
    for rank in (0, 1):
        assert rendezvous.request("PUT", f"/global/{rank}", "old")[0] == 200
    # One that got no answer asks again.
    for path in ("/global/0", "/global/0", "/local_pod-0/0"):
        assert rendezvous.request("DELETE", path)[0] == 200
        assert rendezvous.request("GET", "/global/0") == (200, "old")
    assert rendezvous.request("DELETE", "/global/1")[0] == 200
    assert rendezvous.request("GET", "/global/0")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/elsewhere/0", 403),
        ("GET", "/elsewhere/0", 403),
        ("DELETE", "/elsewhere/0", 403),
        ("PUT", "/local_pod-2/0", 403),
        ("PUT", "/cross_1/0", 403),
        ("PUT", "/global_process_set_hash_/0", 403),
        ("PUT", f"/global_process_set_hash_{'a' * 17}/0", 403),
        ("PUT", "/global/2", 403),
        ("PUT", "/global/-1", 403),
        ("PUT", "/global/00", 403),
        ("PUT", "/global/rank_2", 403),
        ("PUT", f"/global/{'1' * 5000}", 403),
        ("DELETE", "/global/rank_0", 403),
        ("PUT", "/global", 400),
        ("PUT", "/global/0/1", 400),
        ("GET", "/../../etc/passwd", 400),
        ("HEAD", "/", 501),
        ("POST", "/global/0", 501),
    ],
)
def test_what_no_slot_asks_for_is_refused(
    rendezvous: Rendezvous, method: str, path: str, status: int
) -> None:
    assert rendezvous.request(method, path, "x" if method == "PUT" else "")[0] == status
    assert rendezvous.refused() == (status != 501)


def test_a_key_that_is_set_does_not_change(rendezvous: Rendezvous) -> None:
    assert rendezvous.request("PUT", "/global/0", "its address")[0] == 200
    # A slot that got no answer sends the same again.
    assert rendezvous.request("PUT", "/global/0", "its address")[0] == 200
    assert rendezvous.refused() == 0
    assert rendezvous.request("PUT", "/global/0", "a stranger's")[0] == 409
    assert rendezvous.request("GET", "/global/0") == (200, "its address")
    assert rendezvous.refused() == 1
    rendezvous.process.kill()
    error = rendezvous.process.communicate()[1]
    assert_says(error, "refused 'PUT /global/0 HTTP/1.1'", "key has another value")


@pytest.mark.parametrize(
    ("length", "status"), [("", 411), ("x", 411), ("-1", 411), ("2000", 413), ("9" * 99, 413)]
)
def test_a_value_of_another_length_is_not_read(
    rendezvous: Rendezvous, length: str, status: int
) -> None:
    header = f"Content-Length: {length}\r\n" if length else ""
    with socket.create_connection((rendezvous.address, PORT), timeout=DEADLINE_SECONDS) as client:
        client.sendall(f"PUT /global/0 HTTP/1.1\r\n{header}\r\n".encode())
        assert client.recv(12).decode() == f"HTTP/1.0 {status}"


def test_an_incomplete_value_is_not_published(rendezvous: Rendezvous) -> None:
    with socket.create_connection((rendezvous.address, PORT), timeout=DEADLINE_SECONDS) as client:
        client.sendall(b"PUT /global/0 HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(12) == b"HTTP/1.0 400"
    assert rendezvous.request("GET", "/global/0") == (404, "")
