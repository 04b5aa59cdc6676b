"""The metrics server of a process, while clients are slow, many, or send without end."""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from imagenet_workloads.telemetry.limited_connections import LimitedConnections
from support import loopback
from support.processes import DEADLINE_SECONDS, wait_until
from support.training_cluster import METRICS_PORT, ask, plain_environment

SERVE = """
import os, signal
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.limited_connections import LimitedConnections
LimitedConnections.longest_seconds = {longest_seconds}
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
