"""Each fault of a bucket is one clear error, without keys and without the server's own words."""

import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.store import S3Store

from imagenet_workloads.clients.s3 import Bucket, open_bucket
from imagenet_workloads.errors import InputError, WorkloadError
from support.file_server import Fault, FileServer, Handler
from support.remote_preparation import write_secret
from support.sentences import assert_says, says

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, RetryConfig

CONTENT = bytes(range(100))
SPAN = (0, len(CONTENT))
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
TRIES = 3


@pytest.fixture(autouse=True)
def retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries again for minutes; here a few times, without pauses."""
    moment = timedelta(milliseconds=1)
    backoff: BackoffConfig = {"init_backoff": moment, "max_backoff": moment, "base": 2}
    retries: RetryConfig = {"max_retries": TRIES - 1, "backoff": backoff}
    monkeypatch.setattr(obstore.store, "S3Store", partial(S3Store, retry_config=retries))


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/data/x.tar": CONTENT}).running() as running:
        yield running


def bucket(endpoint: str) -> Bucket:
    return open_bucket("data", endpoint, None)


def answer(status: HTTPStatus, code: str) -> Fault:
    body = f"<Error><Code>{code}</Code><Message>of the server</Message></Error>".encode()
    return lambda handler: handler.answer(status, body, {"Content-Type": "application/xml"})


def part(handler: Handler, span: str, lacks: int) -> None:
    headers = {"Content-Range": f"bytes {span}/100", "ETag": '"x"', "Last-Modified": DATE}
    handler.answer(HTTPStatus.PARTIAL_CONTENT, CONTENT[:50], headers, lacks)


def cut_off(handler: Handler) -> None:
    """Announce more bytes than are sent."""
    part(handler, "0-99", lacks=50)


def fewer(handler: Handler) -> None:
    """Answer fewer bytes than were asked for."""
    part(handler, "0-49", lacks=0)


def test_an_endpoint_with_an_impossible_port_is_refused() -> None:
    with pytest.raises(InputError, match=r"endpoint: .* port .*:70000"):
        bucket("http://localhost:70000")


def test_an_endpoint_that_cannot_be_reached() -> None:
    with socket.socket() as bound:
        # Nothing listens on it.
        bound.bind(("127.0.0.1", 0))
        absent = bucket(f"http://127.0.0.1:{bound.getsockname()[1]}")
        words = says("s3://data/x.tar", "cannot be reached", "check endpoint and region")
        with pytest.raises(WorkloadError, match=words):
            absent.read("x.tar")
        with pytest.raises(WorkloadError, match=r"s3://data/: the endpoint cannot be reached"):
            absent.below("")


def test_a_host_name_that_cannot_be_resolved() -> None:
    # Longer than names may be, so that no resolver asks the network.
    absent = bucket(f"http://{'a' * 64}.invalid")
    words = says("s3://data/x.tar", "host name", "cannot be resolved", "check endpoint")
    with pytest.raises(WorkloadError, match=words):
        absent.read("x.tar")


@pytest.mark.parametrize("status", [HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN])
def test_an_expired_session_token_ends_at_once(
    status: HTTPStatus, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "acc3ss", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    secret = write_secret(tmp_path / "secret", **keys, AWS_SESSION_TOKEN="t0ken")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(secret))
    server.faults.append(answer(status, "ExpiredToken"))
    with pytest.raises(InputError) as caught:
        bucket(server.url).read("x.tar")
    assert_says(str(caught.value), "s3://data/x.tar", "ExpiredToken", "Secret")
    (request,) = server.requests
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert sent["x-amz-security-token"] == "t0ken"


@pytest.mark.parametrize("status", [HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT])
def test_a_redirect_to_another_host_gets_no_key_and_no_signature(
    status: HTTPStatus, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "acc3ss", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    secret = write_secret(tmp_path / "secret", **keys, AWS_SESSION_TOKEN="t0ken")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(secret))
    with FileServer({"/data/x.tar": CONTENT}).running() as other:
        target = f"{other.url}/data/x.tar"
        server.faults.append(lambda handler: handler.refuse(status, Location=target))
        assert bucket(server.url).read("x.tar", SPAN)[1] == CONTENT
    (signed,), (led,) = server.requests, other.requests
    assert "acc3ss" in str(signed.headers)
    assert not re.search("acc3ss|s3cret|signature=|authorization", str(led.headers), re.I)
    # What the client has no option against (docs/decisions/0013-s3-client.md).
    assert [name.lower() for name, one in led.headers.items() if "t0ken" in one] == [
        "x-amz-security-token"
    ]


def test_an_answer_that_is_cut_off_is_continued(server: FileServer) -> None:
    server.tags["/data/x.tar"] = '"x"'
    server.faults.append(cut_off)
    assert bucket(server.url).read("x.tar", SPAN)[1] == CONTENT
    assert [one.headers.get("range") for one in server.requests] == ["bytes=0-99", "bytes=50-99"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (cut_off, "the answer is cut off, in several tries"),
        (fewer, "the answer has other bytes than were asked for"),
        (answer(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown"), r"cannot answer now \(SlowDown\)"),
    ],
)
def test_a_fault_that_stays_is_temporary(fault: Fault, words: str, server: FileServer) -> None:
    server.faults.extend([fault] * TRIES)
    with pytest.raises(WorkloadError, match=rf"s3://data/x\.tar: .*{words}$"):
        bucket(server.url).read("x.tar", SPAN)
