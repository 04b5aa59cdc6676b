"""imagenet-door as a process: what it answers, what it refuses, and when it ends."""

import hashlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest

from imagenet_spec import door
from imagenet_workloads.door import Door
from support.doors import DoorProcess, door_process
from support.processes import wait_until
from support.sentences import assert_says


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines() if line]


class Client:
    """Requests over one connection."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port)

    def __call__(
        self, method: str, path: str, body: object = None, /, headers: Any = None, **query: Any
    ) -> Answer:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        url = f"{path}?{urlencode(query)}" if query else path
        self.connection.request(method, url, content, headers or {})
        response = self.connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())


@contextmanager
def begun_upload(port: int) -> Iterator[None]:
    """A connection that has sent two of the four bytes of x, and is then cut."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = "HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
        connection.sendall(f"PUT {door.PARTIAL}?path=x&offset=0 {head}ab".encode())
        yield


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def frame(path: str, content: bytes, **other: object) -> bytes:
    head = {"path": path, "size": len(content), "sha256": sha256(content), **other}
    return json.dumps(head).encode() + b"\n" + content


def files_below(folder: Path) -> dict[str, bytes]:
    """What is below a folder, partial files too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A claim beside which something lies that nobody may reach."""
    (tmp_path / "secret").write_bytes(b"secret")
    claim = tmp_path / "claim"
    (claim / "a").mkdir(parents=True)
    (claim / "a" / "digits").write_bytes(b"0123456789")
    (claim / "link").symlink_to("../secret")
    (claim / "up").symlink_to("..")
    return claim


@pytest.fixture
def served(folder: Path) -> Iterator[Door]:
    """A door of this process."""
    ended = threading.Event()
    with Door(folder, 0, is_writable=True) as made:
        made.timeout = 0.01

        def serve() -> None:
            while not ended.is_set():
                made.handle_request()

        serving = threading.Thread(target=serve)
        serving.start()
        yield made
        ended.set()
        serving.join()


@pytest.fixture
def ask(served: Door) -> Iterator[Client]:
    client = Client(served.server_port)
    with closing(client.connection):
        yield client


@contextmanager
def client_of(process: DoorProcess) -> Iterator[Client]:
    client = Client(process.port)
    with closing(client.connection):
        yield client


def test_files_are_listed_read_and_hashed(ask: Client) -> None:
    assert ask("GET", door.VOLUME).document["free"] > 0
    listed = ask("GET", door.FILES).lines
    assert listed[-1] == {"end": True}
    assert sorted(listed[:-1], key=lambda one: one["path"]) == [
        {"path": "a/digits", "size": 10},
        {"path": "link", "leftOut": "is a link"},
        {"path": "up", "leftOut": "is a link"},
    ]
    assert ask("GET", door.FILES, path="a").lines == [
        {"path": "a/digits", "size": 10},
        {"end": True},
    ]
    asked = [{"path": "a/digits"}, {"path": "a/digits", "length": 3}, {"path": "none"}]
    whole, beginning, missing = ask("POST", door.SUMS, asked).lines
    assert whole == {"path": "a/digits", "size": 10, "sha256": sha256(b"0123456789")}
    assert beginning == {"path": "a/digits", "size": 3, "sha256": sha256(b"012")}
    assert missing["reason"] == "NotFound"
    frames = ask("POST", door.READ, ["a/digits", "none"]).body
    assert frames.startswith(frame("a/digits", b"0123456789"))
    assert json.loads(frames.splitlines()[-1][len("0123456789") :])["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("given", "status", "body"),
    [
        ("bytes=3-", 206, b"3456789"),
        ("bytes=3-4", 206, b"34"),
        ("bytes=0-9", 200, b"0123456789"),
        ("bytes=9-99", 206, b"9"),
        ("bytes=10-", 409, None),
        ("bytes=5-4", 409, None),
        ("bytes=-3", 400, None),
        ("bytes=0-1,3-4", 400, None),
        ("bytes=" + "9" * 19 + "-", 400, None),
    ],
)
def test_a_range_is_part_of_a_file(
    ask: Client, given: str, status: int, body: bytes | None
) -> None:
    answer = ask("GET", door.FILE, headers={"Range": given}, path="a/digits")
    assert answer.status == status
    if body is not None:
        assert answer.body == body
        assert ("Content-Range" in answer.headers) == (status == 206)
    else:
        assert_says(answer.document["error"], "a/digits")


LEADING_OUT = (
    "../secret",
    "/etc/passwd",
    "link",
    "up/secret",
    "a/../../secret",
    "x\0",
    "a\\..\\b",
    "",
)


@pytest.mark.parametrize("path", LEADING_OUT, ids=ascii)
def test_no_request_leads_out_of_the_folder(ask: Client, folder: Path, path: str) -> None:
    before = files_below(folder.parent)
    bodies = [
        ask("GET", door.FILE, path=path),
        ask("GET", door.PARTIAL, path=path),
        ask("PUT", door.PARTIAL, b"x", path=path, offset=0),
        ask("POST", door.WRITE, frame(path, b"x")),
    ]
    finished = ask("POST", door.FINISH, path=path, size=1, sha256=sha256(b"x"))
    lines = [
        *ask("POST", door.READ, [path]).lines,
        *ask("POST", door.SUMS, [{"path": path}]).lines,
        finished.lines[-1],
    ]
    for document in (*(answer.document for answer in bodies if answer.status != 200), *lines):
        assert document["reason"] == "Invalid"
        assert len(document["error"].splitlines()) == 1
    assert {answer.status for answer in bodies} <= {200, 400}
    assert b"secret" not in b"".join(answer.body for answer in bodies if answer.status == 200)
    assert files_below(folder.parent) == before


@pytest.mark.parametrize("path", ["..", "up", "/", "a/.."])
def test_no_listing_leads_out_of_the_folder(ask: Client, path: str) -> None:
    answer = ask("GET", door.FILES, path=path)
    assert "secret" not in str(answer.body)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", door.PARTIAL, {}),
        ("PUT", door.PARTIAL, {"offset": 0}),
        ("POST", door.FINISH, {"size": 1, "sha256": "0" * 64}),
        ("POST", door.WRITE, {}),
    ],
)
def test_a_door_that_is_not_writable_takes_nothing(
    folder: Path, method: str, path: str, query: dict[str, object]
) -> None:
    before = files_below(folder)
    with door_process(folder) as running, client_of(running) as ask:
        answer = ask(method, path, frame("x", b"x"), path="new/x", **query)
        assert (answer.status, answer.document["reason"]) == (403, "ReadOnly")
        assert ask("GET", door.VOLUME).document["writable"] is False
        assert ask("GET", door.FILE, path="a/digits").body == b"0123456789"
    assert files_below(folder) == before
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    "headers",
    [{"Host": "door.example:9093"}, {"Host": ""}, {"Origin": "http://door.example"}],
    ids=str,
)
def test_the_pages_of_a_browser_get_nothing(ask: Client, headers: dict[str, str]) -> None:
    answer = ask("GET", door.FILE, headers=headers, path="a/digits")
    assert (answer.status, answer.document["reason"]) == (403, "Forbidden")


def test_only_this_machine_reaches_it(served: Door) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.server_port))


def test_an_upload_arrives_in_parts_and_may_be_sent_again(ask: Client, folder: Path) -> None:
    content = b"0123456789" * 1000
    finish = {"path": "new/file", "size": len(content), "sha256": sha256(content)}
    assert ask("GET", door.PARTIAL, path="new/file").document == {"received": 0}
    sent = ask("PUT", door.PARTIAL, content[:4000] + bytes(8000), path="new/file", offset=0)
    assert sent.document == {"received": 12_000}
    assert ask("POST", door.FINISH, **finish).lines[-1]["reason"] == "Changed"
    part = {"path": "new/file", "partial": True, "length": 4000}
    assert ask("POST", door.SUMS, [part]).lines[0]["sha256"] == sha256(content[:4000])
    beyond = ask("PUT", door.PARTIAL, b"x", path="new/file", offset=12_001)
    assert (beyond.status, beyond.document["reason"]) == (409, "Changed")
    # What a cut connection has left behind the offset is replaced.
    ask("PUT", door.PARTIAL, content[4000:], path="new/file", offset=4000)
    assert not (folder / "new/file").exists()
    for _ in range(2):
        assert ask("POST", door.FINISH, **finish).lines[-1] == {"sha256": sha256(content)}
    assert files_below(folder / "new") == {"file": content}
    assert (
        ask("POST", door.FINISH, **{**finish, "sha256": "0" * 64}).lines[-1]["reason"] == "Changed"
    )


def test_an_upload_with_another_sum_is_refused_and_removed(ask: Client, folder: Path) -> None:
    before = files_below(folder)
    ask("PUT", door.PARTIAL, b"other", path="a/digits", offset=0)
    answer = ask("POST", door.FINISH, path="a/digits", size=5, sha256=sha256(b"wanted"))
    assert answer.lines[-1]["reason"] == "WrongSum"
    assert_says(answer.lines[-1]["error"], "a/digits")
    assert files_below(folder) == before


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (frame("b/two", b"22", sha256=sha256(b"33")), "WrongSum"),
        (frame("b/two", b"22", size=3), "Invalid"),
        (frame("b/two", b"22", sha256="x"), "Invalid"),
        (frame("../two", b"22"), "Invalid"),
        (frame("b/two", b"", size=door.SMALL_BYTES + 1), "Invalid"),
        (b'{"path": "b/two"', "Invalid"),
        (b"[" * 20_000, "Invalid"),
        (b"[]\n", "Invalid"),
        (b"".join(frame(f"b/{n}", b"") for n in range(door.BATCH_FILES)), "Invalid"),
    ],
    ids=["sum", "size", "no sum", "name", "large", "cut off", "deep", "list", "many"],
)
def test_one_wrong_file_leaves_nothing_of_its_request(
    ask: Client, folder: Path, wrong: bytes, reason: str
) -> None:
    before = files_below(folder)
    answer = ask("POST", door.WRITE, frame("b/one", b"1") + wrong)
    assert answer.document["reason"] == reason
    assert answer.status == door.STATUS[reason]  # type: ignore[index]
    assert files_below(folder) == before
    assert ask("POST", door.WRITE, frame("b/one", b"1")).document == {"written": 1}


def test_an_error_leaves_its_connection_for_the_next_request(ask: Client) -> None:
    ask.connection.connect()
    used = ask.connection.sock
    assert ask("PUT", door.PARTIAL, b"x" * 100_000, path="..", offset=0).status == 400
    assert ask("POST", "/nothing", b"x").status == 404
    assert ask("GET", door.FILE, path="a/digits").body == b"0123456789"
    assert ask.connection.sock is used


@pytest.mark.parametrize(
    "head",
    [
        "Transfer-Encoding: chunked",
        f"Content-Length: {door.PIECE_BYTES + 1}",
        "Content-Length: -1",
        "Content-Length: 1_0",
    ],
)
def test_a_body_without_a_proper_length_ends_its_connection(served: Door, head: str) -> None:
    with socket.create_connection(("127.0.0.1", served.server_port)) as connection:
        connection.sendall(
            f"PUT {door.PARTIAL}?path=x&offset=0 HTTP/1.1\r\n"
            f"Host: localhost\r\n{head}\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert_says(answer.decode(), "Invalid")


def test_names_of_any_language_are_sent_and_listed(ask: Client) -> None:
    for path in ("Fotos/Müller 1%+&=#?.jpg", "图片/一.jpg", "😀"):
        ask("POST", door.WRITE, frame(path, b"x"))
        assert ask("GET", door.FILES, path=path).lines == [{"path": path, "size": 1}, {"end": True}]
        assert ask("GET", f"{door.FILE}?path={quote(path)}").body == b"x"
    assert ask("GET", f"{door.FILE}?path=%ff").status == 400


def test_one_upload_of_a_file_at_a_time(served: Door, ask: Client) -> None:
    """The first one has sent half of its body when the second one comes."""
    with begun_upload(served.server_port):
        wait_until(
            lambda: ask("GET", door.PARTIAL, path="x").document["received"], "the first bytes"
        )
        second = ask("PUT", door.PARTIAL, b"cd", path="x", offset=0)
        assert (second.status, second.document["reason"]) == (423, "Busy")
    # The first connection is cut: what has arrived stays, and another one goes on.
    wait_until(
        lambda: ask("PUT", door.PARTIAL, b"cd", path="x", offset=2).status == 200, "the end of it"
    )
    assert ask("POST", door.FINISH, path="x", size=4, sha256=sha256(b"abcd")).lines[-1]["sha256"]


def test_a_full_volume_is_an_answer_with_the_files_name(folder: Path) -> None:
    limit = 1 << 20
    with (
        door_process(folder, "--writable", most_file_bytes=limit) as running,
        client_of(running) as ask,
    ):
        answer = ask("PUT", door.PARTIAL, bytes(4 << 20), path="big", offset=0)
        assert (answer.status, answer.document["reason"]) == (507, "Full")
        assert_says(answer.document["error"], "big")
        assert ask("GET", door.PARTIAL, path="big").document == {"received": limit}
        assert ask("POST", door.WRITE, frame("small", b"x")).document == {"written": 1}


def test_it_says_regularly_that_it_looks_for_files(
    ask: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLANK_SECONDS", 0.001)
    for number in range(3000):
        (folder / "empty" / str(number)).mkdir(parents=True)
    answer = ask("GET", door.FILES, path="empty")
    assert answer.body.startswith(b"\n")
    assert answer.lines == [{"end": True}]
    missing = ask("GET", door.FILES, path="none").lines
    assert [line["reason"] for line in missing] == ["NotFound"]


def test_it_says_regularly_that_a_long_sum_is_computed(
    ask: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLANK_SECONDS", 0.001)
    with (folder / "large").open("wb") as file:
        file.truncate(1 << 28)
    answer = ask("POST", door.SUMS, [{"path": "large"}])
    assert answer.body.startswith(b"\n")
    assert answer.lines[0]["size"] == 1 << 28


def test_it_ends_when_nothing_was_asked_for_a_time(folder: Path) -> None:
    with door_process(folder, "--idle-seconds", "6") as running, client_of(running) as ask:
        assert ask("GET", door.VOLUME).status == 200
        assert running.program.wait() == 0


def test_sigterm_ends_it_and_leaves_an_upload_to_go_on(folder: Path) -> None:
    with (
        door_process(folder, "--writable") as running,
        client_of(running) as ask,
        begun_upload(running.port),
    ):
        wait_until(
            lambda: ask("GET", door.PARTIAL, path="x").document["received"] == 2, "the bytes"
        )
        running.program.send_signal(signal.SIGTERM)
        assert running.program.wait() == 128 + signal.SIGTERM
    with door_process(folder, "--writable") as running, client_of(running) as ask:
        assert ask("GET", door.PARTIAL, path="x").document == {"received": 2}


@pytest.mark.parametrize("options", [("--folder", "none"), ("--folder", "a", "--port", "{taken}")])
def test_it_says_why_it_cannot_begin(folder: Path, served: Door, options: tuple[str, ...]) -> None:
    named = [one.format(taken=served.server_port) for one in options]
    ended = subprocess.run(
        [sys.executable, "-m", "imagenet_workloads.commands.door", *named],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert_says(ended.stderr, "imagenet-door: error: --", named[-1])
    assert len(ended.stderr.splitlines()) == 1
