"""Waiting: for a port, for a name, with an end and a word about it."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.rendezvous import waiting
from imagenet_workloads.rendezvous.dmlc import (
    DmlcMember,
    DmlcRole,
    wait_for_scheduler,
)
from imagenet_workloads.rendezvous.waiting import deadline
from support.loopback import free_port
from support.processes import wait_until
from support.sentences import assert_says, says


def member(role: DmlcRole, host: str = "127.0.0.1", port: int = 1) -> DmlcMember:
    return DmlcMember(role, host, port, 2, 1)


def test_an_open_port_ends_the_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        scheduler = member(DmlcRole.WORKER, "localhost", server.getsockname()[1])
        assert wait_for_scheduler(scheduler, timeout=60) == "127.0.0.1"


def wait_until_heard_of(lines: int, port: int, caplog: pytest.LogCaptureFixture) -> None:
    """Wait for a port, which opens when the log has so many lines about it."""
    caplog.set_level(logging.INFO)
    waiting = threading.Thread(
        target=wait_for_scheduler, args=(member(DmlcRole.SERVER, port=port), 60), daemon=True
    )
    waiting.start()
    # A line comes after a refusal, so the wait has begun when it is there.
    wait_until(lambda: len(caplog.messages) >= lines or not waiting.is_alive(), "it is heard of")
    with socket.create_server(("127.0.0.1", port)):
        waiting.join(60)
    assert not waiting.is_alive()


def test_a_port_that_opens_later_ends_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    wait_until_heard_of(1, port, caplog)
    assert f"server waits for the scheduler 127.0.0.1:{port}: Connection refused" in caplog.text


@pytest.mark.parametrize(
    ("who", "message"),
    [
        (member(DmlcRole.WORKER), "worker gave up.*the scheduler 127.0.0.1:1: Connection refused"),
        (member(DmlcRole.WORKER, "nobody.invalid"), "nobody.invalid:1: the name does not resolve"),
        (member(DmlcRole.SCHEDULER, "nobody.invalid"), "its own name nobody.invalid to resolve"),
    ],
)
def test_the_wait_ends_and_says_for_whom(who: DmlcMember, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as end:
        wait_for_scheduler(who, timeout=0.3)
    assert end.value.exit_code == 1


@pytest.mark.parametrize("role", [DmlcRole.SCHEDULER, DmlcRole.SERVER, DmlcRole.WORKER])
def test_a_name_that_resolves_later_ends_the_wait(
    role: DmlcRole, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    known = socket.getaddrinfo
    answers = iter([socket.EAI_NONAME, socket.EAI_AGAIN])

    def unsteady(host: str, *more: Any, **named: Any) -> Any:
        if error := next(answers, None):
            raise socket.gaierror(error, "no such name")
        return known("127.0.0.1", *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", unsteady)
    monkeypatch.setattr(waiting, "FIRST_RESOLVE_INTERVAL", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        worker = member(role, "digits-r0-scheduler-0.digits-r0", server.getsockname()[1])
        assert wait_for_scheduler(worker, timeout=60) == "127.0.0.1"
    assert next(answers, None) is None
    assert "digits-r0-scheduler-0.digits-r0" in caplog.text
    assert "the name does not resolve" in caplog.text


def test_a_name_is_asked_for_often_at_first_and_each_second_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)

    def look_up() -> str:
        if len(slept) < 20:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return "10.0.0.7"

    assert waiting.keep_trying(look_up, "worker 1", "rank 0", timeout=60) == "10.0.0.7"
    assert slept == sorted(slept)
    assert sum(slept[:3]) < 0.5
    assert slept[-10:] == [1.0] * 10


def test_a_pod_asks_for_its_peers_within_the_cluster_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As it is, the name would go to a server outside of the cluster, which may not answer."""
    asked = []

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        asked.append(host)
        if host == "peer.digits-r0.svc.cluster.local.":
            return [(None, None, None, None, ("10.0.0.7", port))]
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    (tmp_path / "resolv.conf").write_text(
        "nameserver 10.96.0.10\nsearch vision.svc.cluster.local svc.cluster.local\n"
    )
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setattr(waiting, "RESOLVER", tmp_path / "resolv.conf")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    assert waiting.resolve("peer.digits-r0", 9091) == "10.0.0.7"
    with pytest.raises(
        socket.gaierror, match=says("none of", "absent.digits-r0.vision.svc.cluster.local")
    ):
        waiting.resolve("absent.digits-r0", 9091)
    assert all(name.endswith(".cluster.local.") for name in asked)
    asked.clear()
    for host in ("localhost", "10.0.0.7"):
        with pytest.raises(socket.gaierror):
            waiting.resolve(host, 9091)
    assert asked == ["localhost", "10.0.0.7"]


def test_a_scheduler_does_not_wait_for_its_own_port() -> None:
    assert wait_for_scheduler(member(DmlcRole.SCHEDULER), timeout=60) == "127.0.0.1"


def test_a_long_wait_is_heard_of_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(waiting, "REPORT_INTERVAL", 0.0)
    wait_until_heard_of(2, free_port(), caplog)
    assert len(caplog.messages) >= 2


def test_a_deadline_gives_up_on_what_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REPORT_INTERVAL", 0.05)
    said: list[str] = []
    given_up = threading.Event()

    def give_up(message: str) -> None:
        said.append(message)
        given_up.set()

    with deadline("2 workers to join", 0.2, give_up):
        assert given_up.wait(60)
    (message,) = said
    assert_says(message, "gave up", "0.2 s", "2 workers to join")


GIVING_UP = """
import threading
import time
from imagenet_workloads.rendezvous.waiting import deadline, give_up

with deadline("a member", 0.1, give_up):
    threading.Event().wait()
"""


def test_giving_up_ends_the_process_also_where_no_last_word_can_be_left(tmp_path: Path) -> None:
    nowhere = {**os.environ, "IMAGENET_TERMINATION_LOG": str(tmp_path / "none" / "log")}
    ended = subprocess.run(
        [sys.executable, "-c", GIVING_UP], env=nowhere, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert_says(ended.stderr, "imagenet-train: error: gave up", "0.1 s", "a member")


def test_giving_up_ends_the_process_also_where_stderr_is_full(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", GIVING_UP],
            env={**os.environ, "IMAGENET_TERMINATION_LOG": str(log)},
            stdout=full,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert_says(log.read_text(), "0.1 s", "a member")


def test_a_deadline_is_quiet_about_what_ends() -> None:
    said: list[str] = []
    with deadline("nothing", 60, said.append):
        pass
    assert said == []
    assert "deadline" not in {thread.name for thread in threading.enumerate()}


def test_a_watch_ends_with_what_it_watches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(waiting, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(waiting, "REPORT_INTERVAL", 0.0)
    left = iter(["3 of 5 members", "1 of 5 members", None])
    waiting.watch(lambda: next(left), 60, pytest.fail, threading.Event())
    assert [message.partition(" (")[0] for message in caplog.messages] == [
        "waits for 3 of 5 members",
        "waits for 1 of 5 members",
    ]


def test_a_peer_that_does_not_listen_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not waiting.is_gone("127.0.0.1", port)
    assert waiting.is_gone("127.0.0.1", port)


def test_a_peer_that_does_not_answer_is_gone_soon() -> None:
    # The one with the longer timeout ends, refused, without a listener.
    with ThreadPoolExecutor() as threads, silent() as address:
        patient = threads.submit(socket.create_connection, address, timeout=60)

        assert waiting.is_gone(*address)

        assert not patient.done()


@contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """An address from which no answer comes: its queue of connections is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        stack.enter_context(socket.create_connection(server.getsockname(), timeout=5))
        yield server.getsockname()
