"""How stories ask an API server that refuses, is busy, or breaks off in the middle of a watch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from kind import raw
from kind.kubectl import Kubectl, KubectlError, NotFoundError
from support.sentences import says

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """One answer: its code, what is asked to be waited, and all that comes of its body."""

    body: str = "{}"
    code: int = 200
    retry_after: int | None = None


@dataclass(frozen=True)
class Server:
    """An API server that says what a test has written down, in that order.

    Attributes:
        kubectl: To ask it.
        asked: Verb and path of each question so far.
    """

    kubectl: Kubectl
    asked: list[str]


Serving = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """Return what starts a server with these answers."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    with _served() as (address, answers, asked):

        def start(*said: Said) -> Server:
            answers.extend(said)
            opener = build_opener(ProxyHandler({}))
            # Who is trusted, and how it is found, is not what these tests are about.
            monkeypatch.setattr(raw, "_opener", lambda _: (address, opener))
            return Server(Kubectl("kubectl", kubeconfig, "vision"), asked)

        yield start
        assert not answers, "something was not asked for"


@contextmanager
def _served() -> Iterator[tuple[str, list[Said], list[str]]]:
    answers: list[Said] = []
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            said = answers.pop(0) if answers else Said("nothing more is written down", 500)
            self.send_response(said.code)
            if said.retry_after is not None:
                self.send_header("Retry-After", str(said.retry_after))
            self.end_headers()
            self.wfile.write(said.body.encode())

        do_GET = answer  # noqa: N815 -- as http.server calls it

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", answers, asked
        finally:
            server.shutdown()
            thread.join()


def pod(name: str) -> Manifest:
    """A pod, as far as these tests look at one."""
    return {"metadata": {"name": name}, "status": {"phase": "Running"}}


def listed(*names: str, version: str = "7") -> Said:
    """A list of pods."""
    items = [pod(name) for name in names]
    return Said(json.dumps({"metadata": {"resourceVersion": version}, "items": items}))


def event(kind: str, told: Manifest) -> str:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": told}) + "\n"


def has(*names: str) -> Callable[[dict[str, Manifest]], bool]:
    """Whether exactly these are there."""
    return lambda pods: set(pods) == set(names)


def test_who_is_busy_is_asked_again(serve: Serving) -> None:
    server = serve(Said(code=429, retry_after=0), Said(code=503, retry_after=0), Said('{"a": 1}'))
    assert server.kubectl.raw("/version") == '{"a": 1}'
    assert server.asked == ["GET /version"] * 3


def test_who_stays_busy_is_an_error_in_the_end(serve: Serving) -> None:
    server = serve(*[Said("too many requests", 429, retry_after=0)] * raw.BUSY_TIMES)
    with pytest.raises(KubectlError, match=r"^/version: too many requests$"):
        server.kubectl.raw("/version")


@pytest.mark.parametrize(("code", "error"), [(404, NotFoundError), (403, KubectlError)])
def test_a_refusal_says_what_was_said(serve: Serving, code: int, error: type[KubectlError]) -> None:
    server = serve(Said("pods is not for you", code))
    with pytest.raises(error, match="pods is not for you") as caught:
        server.kubectl.get("pods", "one")
    assert type(caught.value) is error


def test_who_does_not_answer_is_named_with_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _served() as (address, _, _):
        pass
    (tmp_path / "kubeconfig").touch()
    monkeypatch.setattr(raw, "_opener", lambda _: (address, build_opener(ProxyHandler({}))))
    kubectl = Kubectl("kubectl", tmp_path / "kubeconfig", "vision")
    with pytest.raises(KubectlError, match=r"^/version: the API server did not answer: .*refused"):
        kubectl.raw("/version")


def test_a_watch_begins_where_the_list_ended_and_ends_when_satisfied(serve: Serving) -> None:
    told = event("ADDED", pod("two")) + event("DELETED", pod("one"))
    server = serve(listed("one"), Said(told))

    found = server.kubectl.wait_until("pods", has("two"), seconds=60)

    assert found == {"two": pod("two")}
    first, second = map(urlsplit, server.asked)
    assert first.path == second.path == "GET /api/v1/namespaces/vision/pods"
    query = parse_qs(second.query)
    assert (query["watch"], query["resourceVersion"]) == (["1"], ["7"])


@pytest.mark.parametrize(
    "broken",
    [
        event("ADDED", pod("two")) + '{"type": "ADD',
        event("ERROR", {"kind": "Status", "code": 410}),
        "",
    ],
    ids=["cut short", "too old", "ended"],
)
def test_a_watch_that_breaks_begins_with_a_new_list(serve: Serving, broken: str) -> None:
    server = serve(listed("one"), Said(broken), listed("one", "two", "three", version="9"))
    found = server.kubectl.wait_until("pods", has("one", "two", "three"), seconds=60)
    assert set(found) == {"one", "two", "three"}


def test_what_does_not_come_is_told_with_what_was_there(serve: Serving) -> None:
    server = serve(listed("one"))
    with pytest.raises(KubectlError, match=says("pods in vision", "not come", "seen: {", '"one"')):
        server.kubectl.wait_until("pods", has("two"), seconds=0)
