"""A file on a server is read by ranges, and each fault of a server is one clear error."""

import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest
import urllib3

from imagenet_workloads.clients import http
from imagenet_workloads.clients.http import Address, HttpClient, Login
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources.opening import open_remote, sample_size
from imagenet_workloads.prepare.stores.http import HttpBlob, ServedFile, download
from support.file_server import Fault, FileServer, Handler, basic
from support.processes import wait_until
from support.sentences import says

CONTENT = bytes(range(256)) * 40
UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/x.tar": CONTENT, "/labels.txt": b"n01\n"}).running() as running:
        yield running


class Pauses(list[float]):
    """The pauses of a client, which takes none."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def blob_of(
    server: FileServer,
    name: str = "x.tar",
    query: str = "",
    login: Login | None = None,
    size: int | None = None,
) -> HttpBlob:
    client = HttpClient(login, Pauses())
    return HttpBlob(ServedFile(name, Address(f"{server.url}/{name}", query), size), client)


def refuse(status: int, **headers: str) -> Fault:
    return lambda handler: handler.refuse(HTTPStatus(status), **headers)


def cut_off(handler: Handler) -> None:
    """Announce more bytes than are sent."""
    span = f"bytes 0-99/{len(CONTENT)}"
    handler.answer(HTTPStatus.PARTIAL_CONTENT, b"x" * 50, {"Content-Range": span}, lacks=50)


def hang_up(handler: Handler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def test_it_reads_ranges_over_a_connection_that_stays_open(server: FileServer) -> None:
    blob = blob_of(server)
    assert blob.size == len(CONTENT)
    assert blob.read(0, 512) == CONTENT[:512]
    assert blob.read(700, 10) == CONTENT[700:710]
    assert blob.read(len(CONTENT) - 3, 512) == CONTENT[-3:]
    assert blob.read(len(CONTENT), 512) == b""
    blob.close()


@pytest.mark.parametrize("fault", [refuse(503), refuse(429), cut_off, hang_up])
def test_it_tries_again_after_a_temporary_fault(server: FileServer, fault: Fault) -> None:
    blob = blob_of(server)
    server.faults.extend([fault, fault])
    assert blob.read(0, 100) == CONTENT[:100]
    blob.close()


def test_it_waits_longer_each_time_and_as_long_as_the_server_asks(server: FileServer) -> None:
    pauses = Pauses()
    blob = HttpBlob(ServedFile("x", Address(f"{server.url}/x.tar")), HttpClient(None, pauses))
    server.faults.extend([refuse(503), refuse(503), refuse(503), refuse(429, Retry_After="7")])
    blob.read(0, 1)
    assert [0.25 <= pauses[0] <= 0.5, 0.5 <= pauses[1] <= 1, 1 <= pauses[2] <= 2] == [True] * 3
    assert pauses[3] == 7
    server.faults.extend([refuse(503, Retry_After="99999999"), refuse(503, Retry_After="lunch")])
    blob.read(0, 1)
    assert pauses[4] == 300
    assert pauses[5] <= 1
    blob.close()


def test_it_gives_up_in_the_end(server: FileServer) -> None:
    blob = blob_of(server)
    server.faults.extend([refuse(503)] * 8)
    with pytest.raises(WorkloadError, match=r"/x\.tar: the server answers 503 Service Unav.* 8 tr"):
        blob.read(0, 1)
    server.faults.extend([cut_off] * 8)
    with pytest.raises(WorkloadError, match=says("/x.tar", "the answer is cut off", "in 8 tries")):
        blob.read(0, 100)
    blob.close()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "401 Unauthorized: the server refuses the login; check username and password"),
        (403, "403 Forbidden: .* a link has expired"),
        (404, "404 Not Found: the server has no such file; check url"),
        (410, "410 Gone: .* a link has expired"),
        (400, "400 Bad Request: the server does not answer this request"),
    ],
)
def test_a_permanent_error_ends_at_once(server: FileServer, status: int, message: str) -> None:
    blob = blob_of(server)
    before = len(server.requests)
    server.faults.append(refuse(status))
    with pytest.raises(InputError, match=rf"/x\.tar: {message}"):
        blob.read(0, 1)
    assert len(server.requests) == before + 1
    blob.close()


def test_a_server_that_cannot_be_reached() -> None:
    with socket.socket() as bound:
        # Nothing listens on it.
        bound.bind(("127.0.0.1", 0))
        server = FileServer({}, url=f"http://127.0.0.1:{bound.getsockname()[1]}")
        with pytest.raises(WorkloadError, match="the server cannot be reached, in 8 tries"):
            blob_of(server)


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set when the test is over. The client waits for a tenth of a second in place of 30 s."""
    monkeypatch.setattr(http, "_TIMEOUT", urllib3.Timeout(connect=10, read=0.1))
    event = threading.Event()
    yield event
    event.set()


def test_a_server_that_does_not_answer_in_time(server: FileServer, over: threading.Event) -> None:
    def wait(handler: Handler) -> None:
        over.wait()
        handler.close_connection = True

    server.faults.extend([wait] * 8)
    words = r"/x\.tar: the server does not answer in time, in 8 tries"
    with pytest.raises(WorkloadError, match=words):
        blob_of(server)
    wait_until(lambda: len(server.requests) >= 8, "the server has read all tries")
    assert len(server.requests) == 8


def test_a_server_that_becomes_too_slow_within_an_answer(
    server: FileServer, over: threading.Event
) -> None:
    def stop_half_way(handler: Handler) -> None:
        cut_off(handler)
        handler.wfile.flush()
        over.wait()

    server.faults.extend([stop_half_way] * 8)
    client = HttpClient(None, Pauses())
    with pytest.raises(
        WorkloadError, match=says("the server does not answer in time", "in 8 tries")
    ):
        client.get(Address(f"{server.url}/x.tar"), HTTPStatus.PARTIAL_CONTENT, 100, {})
    client.close()


def test_a_host_name_that_cannot_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    # A real resolver would ask the network.
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    server = FileServer({}, url="http://images.invalid")
    with pytest.raises(WorkloadError, match=r"the host name images\.invalid cannot be resolved"):
        blob_of(server)


def test_a_server_that_ignores_ranges(server: FileServer) -> None:
    server.knows_ranges = False
    with pytest.raises(InputError, match=r"ranges of bytes; write source\.http\.cache"):
        blob_of(server)


def test_an_empty_file(server: FileServer) -> None:
    server.content["/x.tar"] = b""
    with pytest.raises(InputError, match="is empty"):
        blob_of(server)


def test_a_file_of_another_size_than_the_manifest_says(server: FileServer) -> None:
    with pytest.raises(InputError, match=r"has 10240 bytes in place of 9 \(sizeBytes\)"):
        blob_of(server, size=9)


def another_file(server: FileServer) -> None:
    server.content["/x.tar"] = CONTENT[::-1]


def another_size(server: FileServer) -> None:
    server.content["/x.tar"] = CONTENT * 2


def another_weak_tag(server: FileServer) -> None:
    # A weak tag cannot be a condition, so the client compares it.
    server.tags["/x.tar"] = 'W/"2"'


@pytest.mark.parametrize("change", [another_file, another_size, another_weak_tag])
def test_a_file_that_changes_between_two_reads(server: FileServer, change: object) -> None:
    server.tags["/x.tar"] = 'W/"1"' if change is another_weak_tag else ""
    if change is not another_weak_tag:
        del server.tags["/x.tar"]
    blob = blob_of(server)
    assert callable(change)
    change(server)
    with pytest.raises(InputError, match="the source has changed since it was indexed"):
        blob.read(0, 100)
    blob.close()


def test_an_answer_with_other_bytes_than_asked_for(server: FileServer) -> None:
    def lie(handler: Handler) -> None:
        span = f"bytes 0-49/{len(CONTENT)}"
        tag = server.requests[-1].headers["If-Match"]
        headers = {"Content-Range": span, "ETag": tag}
        handler.answer(HTTPStatus.PARTIAL_CONTENT, CONTENT[:50], headers)

    blob = blob_of(server)
    server.faults.append(lie)
    with pytest.raises(WorkloadError, match="answers 50 bytes from 0 in place of 100 from 0"):
        blob.read(0, 100)
    blob.close()


def test_an_answer_without_a_range(server: FileServer) -> None:
    server.faults.append(lambda handler: handler.answer(HTTPStatus.PARTIAL_CONTENT, b"x", {}))
    with pytest.raises(InputError, match="gives no size of the file"):
        blob_of(server)


def test_a_login_is_sent_with_each_request(server: FileServer) -> None:
    server.login = basic("reader", "sécret:1")
    blob = blob_of(server, login=Login("reader", "sécret:1"))
    assert blob.read(0, 4) == CONTENT[:4]
    blob.close()
    with pytest.raises(InputError, match="401"):
        blob_of(server, login=Login("reader", "another"))


def test_a_redirect_to_the_same_host_keeps_the_login(server: FileServer) -> None:
    server.login = basic("reader", "secret")
    server.faults.append(refuse(302, Location="/x.tar"))
    blob = blob_of(server, "old.tar", login=Login("reader", "secret"))
    assert blob.read(0, 4) == CONTENT[:4]
    # The second request went where the first one was led.
    assert [request.path for request in server.requests] == ["/old.tar", "/x.tar", "/x.tar"]
    blob.close()


def test_a_redirect_to_another_host_gets_no_credentials(server: FileServer) -> None:
    with FileServer({"/x.tar?signature=1": CONTENT}).running() as other:
        server.login = basic("reader", "secret")
        target = f"{other.url}/x.tar?signature=1"
        server.faults.append(refuse(307, Location=target))
        blob = blob_of(server, query="token=2", login=Login("reader", "secret"))
        assert blob.read(0, 4) == CONTENT[:4]
        assert blob.where == f"{server.url}/x.tar"
        blob.close()
        assert {request.path for request in other.requests} == {"/x.tar?signature=1"}
        assert all("Authorization" not in request.headers for request in other.requests)


def test_an_expired_link_of_a_redirect_is_asked_for_again(server: FileServer) -> None:
    with FileServer({"/x.tar?signature=1": CONTENT, "/x.tar?signature=2": CONTENT}).running() as at:
        server.faults.append(refuse(302, Location=f"{at.url}/x.tar?signature=1"))
        blob = blob_of(server)
        del at.content["/x.tar?signature=1"]
        server.faults.append(refuse(302, Location=f"{at.url}/x.tar?signature=2"))
        assert blob.read(0, 4) == CONTENT[:4]
        blob.close()


@pytest.mark.parametrize(
    ("location", "message"),
    [("file:///etc/passwd", "leads to file"), ("/x.tar", "leads through more than 5 redirects")],
)
def test_a_redirect_that_is_not_followed(server: FileServer, location: str, message: str) -> None:
    server.faults.extend([refuse(302, Location=location)] * 6)
    with pytest.raises(InputError, match=message):
        blob_of(server)


def test_a_query_is_sent_and_is_in_no_message(
    server: FileServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "imagenet_workloads")
    server.content = {"/x.tar?signature=s3cret": CONTENT}
    blob = blob_of(server, query="signature=s3cret")
    assert blob.read(0, 4) == CONTENT[:4]
    server.faults.extend([refuse(503), refuse(403)])
    with pytest.raises(InputError) as caught:
        blob.read(0, 4)
    assert "s3cret" not in f"{caught.value} {caplog.text} {blob.version} {blob._address!r}"
    blob.close()


def test_a_label_file_is_read_as_a_whole(server: FileServer) -> None:
    server.knows_ranges = False
    address = Address(f"{server.url}/labels.txt")
    for digest in ("sha256:" + hashlib.sha256(b"n01\n").hexdigest(), None):
        file = ServedFile("labels.txt", address, 4, digest)
        assert download(file, HttpClient()) == b"n01\n"
    with pytest.raises(InputError, match=r"has the md5 .* in place of 0123"):
        download(ServedFile("x", address, None, "md5:0123"), HttpClient())
    with pytest.raises(InputError, match="has 4 bytes in place of 5"):
        download(ServedFile("x", address, 5), HttpClient())


def test_headers_near_each_other_share_a_request() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in range(400):
            info = tarfile.TarInfo(f"n01/{number}.jpg")
            info.size = 300
            archive.addfile(info, io.BytesIO(bytes(300)))
    with FileServer({"/x.tar": file.getvalue()}).running() as server:
        source = open_remote(blob_of(server), None)
        # They find the layout; a sample of images shows how fast pack reads.
        found = len(server.requests)
        assert found < 20 + sample_size(source)
        assert sum(1 for _ in source.scan(Notes())) == 400
        assert len(server.requests) - found < 10
        source.close()
