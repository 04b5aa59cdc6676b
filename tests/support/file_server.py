"""A server of files on this machine: ranges, a login, and whatever faults a test asks for."""

from __future__ import annotations

import base64
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers one request; a fault may take its place."""

    protocol_version = "HTTP/1.1"
    server: _Server
    # The last bytes of an answer would wait for an acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        files = self.server.files
        files.requests.append(Request(self.path, dict(self.headers)))
        fault = files.next_fault()
        if fault is not None:
            fault(self)
        elif files.login and self.headers["Authorization"] != files.login:
            self.refuse(HTTPStatus.UNAUTHORIZED)
        else:
            self.serve()
        self.wfile.flush()

    def serve(self) -> None:
        """Answer as a server does that knows ranges, ETags and conditions."""
        files = self.server.files
        content = files.content.get(self.path)
        if content is None:
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        tag = files.tags.get(self.path)
        if tag is None:
            tag = f'"{md5(content, usedforsecurity=False).hexdigest()}"'
        if self.headers["If-Match"] not in (None, tag):
            self.refuse(HTTPStatus.PRECONDITION_FAILED)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
        if wanted is None or not files.knows_ranges:
            self.answer(HTTPStatus.OK, content, {"ETag": tag})
            return
        first, last = (int(number) for number in wanted.groups())
        if first >= len(content):
            self.refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        part = content[first : last + 1]
        span = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        self.answer(HTTPStatus.PARTIAL_CONTENT, part, {"ETag": tag, "Content-Range": span})

    def refuse(self, status: HTTPStatus, **headers: str) -> None:
        """Answer with a status and no content."""
        self.answer(status, b"", {name.replace("_", "-"): one for name, one in headers.items()})

    def answer(
        self, status: HTTPStatus, content: bytes, headers: Mapping[str, str], lacks: int = 0
    ) -> None:
        """Answer.

        Args:
            status: Of the answer.
            content: Its body.
            headers: Besides Content-Length.
            lacks: Bytes that are announced and not sent.
        """
        self.server.files.count(len(content))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) + lacks))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = lacks > 0

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


Fault = Callable[[Handler], None]


@dataclass(frozen=True)
class Request:
    """A request: its path with the query, and its headers."""

    path: str
    headers: dict[str, str]


@dataclass
class FileServer:
    """What a server has, and what it was asked.

    Attributes:
        content: By path and query, as ``/digits.tar?signature=x``.
        login: The header that it wants; empty for none.
        knows_ranges: Whether it answers requests for ranges with ranges.
        tags: By path, in place of the ETag of the content.
        faults: Each takes the place of an answer, in turn; None answers as usual.
        requests: All requests.
        sent: The bytes of all answers' bodies.
        url: Of its root.
    """

    content: dict[str, bytes]
    login: str = ""
    knows_ranges: bool = True
    tags: dict[str, str] = field(default_factory=dict)
    faults: deque[Fault | None] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, bytes: int) -> None:
        """Count the bytes of an answer's body."""
        with self.lock:
            self.sent += bytes

    def next_fault(self) -> Fault | None:
        """Return what takes the place of the next answer."""
        try:
            return self.faults.popleft()
        except IndexError:
            return None

    @contextmanager
    def running(self) -> Iterator[FileServer]:
        """Serve until the block ends."""
        server = _Server(self)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Server(ThreadingHTTPServer):
    # A client keeps connections open, whose threads then wait for a request.
    daemon_threads = True
    block_on_close = False
    # A client that finds the queue full tries again only after a second.
    request_queue_size = 128

    def __init__(self, files: FileServer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


def basic(user: str, password: str) -> str:
    """Return the header of a login."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@contextmanager
def serve(files: Mapping[str, bytes], user: str, password: str) -> Iterator[str]:
    """Serve files to one user until the block ends; yield the URL of their folder.

    Args:
        files: Content by path, as ``/digits.tar``.
        user: Whom the server answers.
        password: The user's password.
    """
    with FileServer(dict(files), basic(user, password)).running() as server:
        yield server.url
