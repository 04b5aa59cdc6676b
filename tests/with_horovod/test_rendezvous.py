"""`imagenet-rendezvous` as a process, asked as slots ask it."""

import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import loopback
from support.processes import wait_until
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
        connection = http.client.HTTPConnection(self.address, PORT, timeout=30)
        try:
            connection.request(method, path, body.encode())
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

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
    made.process.communicate()


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
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", PORT)) != 0


def test_a_port_that_is_taken_is_said(address: str) -> None:
    with socket.create_server((address, PORT)):
        _, error = Rendezvous(address).process.communicate(timeout=60)
    assert f"cannot listen on {address} port {PORT}: Address already in use" in error


def test_old_addresses_are_gone_when_all_slots_have_met(rendezvous: Rendezvous) -> None:
    """Slots that meet again read no address of the first time, whatever else is complete before."""
    for rank in (0, 1):
        assert rendezvous.request("PUT", f"/global/{rank}", "old")[0] == 200
    for path in ("/global/0", "/local_pod-0/0", "/global/1"):
        assert rendezvous.request("DELETE", path)[0] == 200
    assert rendezvous.request("GET", "/global/0")[0] == 404
