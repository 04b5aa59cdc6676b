"""The HTTP server of imagenet-door: lists, reads and hashes the files of a folder, or takes some.

`imagenet_spec.door` has its requests, `imagenet_spec.tree` what keeps names within the folder and
gives a file its name when it is whole. It listens on 127.0.0.1 of a pod alone: who reaches it, by a
port-forward, was let in by the API server. A browser is let in nowhere: a page of another site has
an Origin, or has made its name lead to 127.0.0.1.
"""

import hashlib
import itertools
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial as bound
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from imagenet_spec import door
from imagenet_spec.tree import FileError, Partial, Tree, file_errors, read_hash, write_all
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.files import begin_writing
from imagenet_workloads.telemetry.server import LimitedConnections

ADDRESS: Final = "127.0.0.1"
_HOSTS: Final = frozenset((ADDRESS, "localhost"))
# A client that neither sends nor takes anything for so long is gone.
_SILENT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5
_BUFFER_BYTES: Final = 1 << 18
# Files that are listed in one go.
_LISTED: Final = 1000
_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

Answer = TypeVar("Answer")


class Door(LimitedConnections, HTTPServer):
    """Serves a folder on a port of 127.0.0.1; a context manager.

    Port 0 is any free one, which `server_port` then has. WorkloadError if the folder cannot be
    opened, or the port not listened on.
    """

    # Each may have open as many files as a request has.
    most_connections = 12
    longest_seconds = math.inf

    def __init__(self, folder: Path, port: int, *, is_writable: bool) -> None:
        try:
            self.tree = Tree(folder)
        except FileError as error:
            raise WorkloadError(f"--folder: {error}") from error
        self.is_writable = is_writable
        self._requests = 0
        self._idle_since = time.monotonic()
        self._counting = threading.Lock()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise WorkloadError(
                f"--port: cannot listen on {ADDRESS} port {port}: {error.strerror}"
            ) from error

    def server_bind(self) -> None:
        """Bind the port, without HTTPServer's DNS request for the address."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    def server_close(self) -> None:
        super().server_close()
        self.tree.__exit__()

    def serve_until_idle(self, seconds: float) -> None:
        self.timeout = min(_POLL_SECONDS, seconds)
        while self._idle_seconds() < seconds:
            self.handle_request()

    def _idle_seconds(self) -> float:
        with self._counting:
            return 0.0 if self._requests else time.monotonic() - self._idle_since

    @contextmanager
    def request(self) -> Iterator[None]:
        with self._counting:
            self._requests += 1
        try:
            yield
        finally:
            with self._counting:
                self._requests -= 1
                self._idle_since = time.monotonic()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SILENT_SECONDS
    wbufsize = _BUFFER_BYTES
    server: Door

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        with self.server.request():
            self._answered = False
            self._left = 0
            try:
                self._route()
            except FileError as error:
                if self._answered:
                    # The answer has begun: only the end of the connection says that it failed.
                    self.close_connection = True
                else:
                    self._answer(_document(error), door.STATUS[error.reason])
            except (ConnectionError, TimeoutError):
                # The client has gone.
                self.close_connection = True

    do_PUT = do_POST = do_GET  # noqa: N815 - the names that http.server looks for

    def _route(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not _WHOLE.fullmatch(length):
            # Where the next request begins is not known.
            self.close_connection = True
            raise FileError("Invalid", "a body needs a Content-Length")
        if int(length) > door.PIECE_BYTES:
            self.close_connection = True
            raise FileError("Invalid", f"a body has {door.PIECE_BYTES} bytes at most, not {length}")
        self._left = int(length)
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in _HOSTS or "Origin" in self.headers:
            raise FileError("Forbidden", f"imagenet-door answers requests to {ADDRESS} alone")
        url = urlsplit(self.path)
        answer = _ROUTES.get((self.command, url.path))
        if answer is None:
            raise FileError("NotFound", f"imagenet-door has no {self.command} {url.path[:100]}")
        if answer in _WRITES and not self.server.is_writable:
            raise FileError("ReadOnly", "the folder is served read-only, without --writable")
        try:
            query = dict(parse_qsl(url.query, keep_blank_values=True, errors="strict"))
        except ValueError as error:
            raise FileError("Invalid", f"the query of {url.path} is no UTF-8") from error
        answer(self, query)

    # What is read of a request.

    def _take(self, buffer: memoryview) -> int:
        count = self.rfile.readinto1(buffer[: self._left])
        if not count:
            raise ConnectionError("the body was cut off")
        self._left -= count
        return int(count)

    def _take_exactly(self, size: int) -> bytes:
        if size > self._left:
            raise FileError("Invalid", "the body is shorter than it says")
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            rest = rest[self._take(rest) :]
        return bytes(content)

    # What is written as an answer.

    def _answer(self, document: object, status: int = 200) -> None:
        """Answer with one object, after the rest of the body was read: it would be a request."""
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        while self._left and not self.close_connection:
            self._take(buffer)
        body = json.dumps(document).encode()
        self._begin(status, "application/json", {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self._answered = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    @contextmanager
    def _lines(self) -> Iterator[None]:
        """Answer in chunks, which the block writes; an error ends them as the last line."""
        self._begin(200, door.LINES, {"Transfer-Encoding": "chunked"})
        try:
            yield
        except FileError as error:
            self._line(_document(error))
        self.wfile.write(b"0\r\n\r\n")

    def _line(self, document: object, content: bytes = b"") -> None:
        line = json.dumps(document).encode() + b"\n"
        self.wfile.write(b"%x\r\n" % (len(line) + len(content)))
        self.wfile.write(line + content + b"\r\n")

    def _patiently(self, work: Callable[[], Answer]) -> Answer:
        """Return the result of what may take long, and write empty lines meanwhile.

        If the client goes, it ends first: files that it uses stay open, and locked.
        """
        result: Future[Answer] = Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)

        # No pool: the interpreter would wait for its threads at its exit.
        threading.Thread(target=run, daemon=True).start()
        try:
            while not wait((result,), door.BLANK_SECONDS).done:
                self.wfile.write(b"1\r\n\n\r\n")
                self.wfile.flush()
        finally:
            wait((result,))
        return result.result()

    # What can be asked for.

    def _volume(self, query: Mapping[str, str]) -> None:
        self._answer({"free": self.server.tree.free(), "writable": self.server.is_writable})

    def _files(self, query: Mapping[str, str]) -> None:
        found = self.server.tree.files(query.get("path", ""))
        with self._lines():
            # Folders over a network may have their first file only after minutes.
            while batch := self._patiently(lambda: list(itertools.islice(found, _LISTED))):
                for one in batch:
                    if one.left_out:
                        self._line({"path": one.path, "leftOut": one.left_out})
                    else:
                        self._line({"path": one.path, "size": one.size})
            self._line({"end": True})

    def _file(self, query: Mapping[str, str]) -> None:
        path = _path(query)
        with self.server.tree.open(path) as file:
            size = os.fstat(file.fileno()).st_size
            start, end = _range(self.headers.get("Range"), size, path)
            with file_errors(path):
                # A damaged disk is an answer, and no broken connection.
                os.pread(file.fileno(), 1, start)
            headers = {"Content-Length": str(end - start), "Accept-Ranges": "bytes"}
            if (start, end) == (0, size):
                self._begin(200, "application/octet-stream", headers)
            else:
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
                self._begin(206, "application/octet-stream", headers)
            self.wfile.flush()
            try:
                sent = self.connection.sendfile(file, start, end - start) if end > start else 0
            except OSError as error:
                raise ConnectionError(f"{path} cannot be sent") from error
            if sent < end - start:
                raise ConnectionError(f"{path} has become shorter")

    def _read(self, query: Mapping[str, str]) -> None:
        paths = _list(self._take_exactly(self._left), str)
        with self._lines():
            for path in paths:
                try:
                    content = self._patiently(bound(_small_content, self.server.tree, path))
                except FileError as error:
                    self._line({"path": path, **_document(error)})
                else:
                    sha256 = hashlib.sha256(content).hexdigest()
                    frame = {"path": path, "size": len(content), "sha256": sha256}
                    self._line(frame, content)

    def _sums(self, query: Mapping[str, str]) -> None:
        asked = _list(self._take_exactly(self._left), dict)
        with self._lines():
            for one in asked:
                try:
                    size, sha256 = self._patiently(bound(_sum, self.server.tree, one))
                except FileError as error:
                    self._line({"path": one.get("path"), **_document(error)})
                else:
                    self._line({"path": one["path"], "size": size, "sha256": sha256})

    def _received(self, query: Mapping[str, str]) -> None:
        self._answer({"received": self.server.tree.size(_path(query), is_partial=True) or 0})

    def _receive(self, query: Mapping[str, str]) -> None:
        path, offset = _path(query), _count(query, "offset")
        with self.server.tree.partial(path) as partial:
            if offset > partial.size:
                raise FileError("Changed", f"{path}: has {partial.size} bytes, not {offset}")
            with file_errors(path):
                # What a cut connection has left behind it is sent again.
                partial.file.truncate(offset)
                partial.file.seek(offset)
            buffer = memoryview(bytearray(_BUFFER_BYTES))
            while self._left:
                count = self._take(buffer)
                with file_errors(path):
                    write_all(partial.file, buffer[:count])
            received = partial.size
            begin_writing(partial.file.fileno(), offset, received - offset)
        self._answer({"received": received})

    def _finish(self, query: Mapping[str, str]) -> None:
        path, size = _path(query), _count(query, "size")
        sha256 = _wanted_sum(query.get("sha256"), path)
        tree = self.server.tree
        with tree.partial(path) as partial, self._lines():
            # The answer to an earlier request may have been lost.
            if not partial.size and tree.size(path) == size:
                if self._patiently(lambda: _sum(tree, {"path": path})) != (size, sha256):
                    raise FileError("Changed", f"{path}: nothing of it has arrived")
            else:
                self._patiently(lambda: _publish(tree, partial, size, sha256))
            self._line({"sha256": sha256})

    def _write(self, query: Mapping[str, str]) -> None:
        self._answer({"written": self.server.tree.write(self._frames())})

    def _frames(self) -> Iterator[tuple[str, bytes]]:
        count = 0
        while self._left:
            line = self.rfile.readline(min(door.LINE_BYTES, self._left))
            self._left -= len(line)
            frame = _object(line)
            if not isinstance(frame, dict):
                raise FileError("Invalid", "a frame begins with no object")
            path, size = _path(frame), _count(frame, "size")
            count += 1
            if size > door.SMALL_BYTES or count > door.BATCH_FILES:
                raise FileError(
                    "Invalid",
                    f"{path}: one request has {door.BATCH_FILES} files of {door.SMALL_BYTES} bytes "
                    "at most",
                )
            wanted = _wanted_sum(frame.get("sha256"), path)
            content = self._take_exactly(size)
            if hashlib.sha256(content).hexdigest() != wanted:
                raise FileError("WrongSum", f"{path}: what has arrived has another SHA-256")
            yield path, content


_ROUTES: Final[Mapping[tuple[str, str], Callable[[_Handler, Mapping[str, str]], None]]] = {
    ("GET", door.VOLUME): _Handler._volume,
    ("GET", door.FILES): _Handler._files,
    ("GET", door.FILE): _Handler._file,
    ("POST", door.READ): _Handler._read,
    ("POST", door.SUMS): _Handler._sums,
    ("GET", door.PARTIAL): _Handler._received,
    ("PUT", door.PARTIAL): _Handler._receive,
    ("POST", door.FINISH): _Handler._finish,
    ("POST", door.WRITE): _Handler._write,
}
_WRITES: Final = frozenset(
    (_Handler._received, _Handler._receive, _Handler._finish, _Handler._write)
)


def _publish(tree: Tree, partial: Partial, size: int, sha256: str) -> None:
    """Give an upload its name, if it is what was sent; delete it if it is not."""
    path = partial.path
    if partial.size != size:
        raise FileError("Changed", f"{path}: {partial.size} bytes have arrived, not {size}")
    with file_errors(path):
        partial.file.seek(0)
        _, hashed = read_hash(partial.file)
    if hashed.hexdigest() != sha256:
        tree.discard(partial)
        raise FileError("WrongSum", f"{path}: what has arrived has another SHA-256")
    tree.publish([partial])


def _small_content(tree: Tree, path: str) -> bytes:
    with tree.open(path) as file, file_errors(path):
        content = file.read(door.SMALL_BYTES + 1)
    if len(content) > door.SMALL_BYTES:
        raise FileError("Changed", f"{path}: has more than {door.SMALL_BYTES} bytes")
    return content


def _sum(tree: Tree, asked: Mapping[str, object]) -> tuple[int, str]:
    path, length = _path(asked), _count(asked, "length") if "length" in asked else None
    with tree.open(path, is_partial=asked.get("partial") is True) as file, file_errors(path):
        size, hashed = read_hash(file, length)
    return size, hashed.hexdigest()


def _document(error: FileError) -> dict[str, str]:
    return {"error": str(error), "reason": error.reason}


def _object(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError("Invalid", f"the body is no JSON: {error}") from error


def _list(text: bytes, kind: type[Answer]) -> list[Answer]:
    found = _object(text)
    if isinstance(found, list) and all(isinstance(one, kind) for one in found):
        if len(found) <= door.BATCH_FILES:
            return found
        raise FileError("Invalid", f"one request has {door.BATCH_FILES} files at most")
    raise FileError("Invalid", "the body is no list of files")


def _path(query: Mapping[str, object]) -> str:
    path = query.get("path")
    if not isinstance(path, str) or not path:
        raise FileError("Invalid", "the path of a file is missing")
    return path


def _count(query: Mapping[str, object], name: str) -> int:
    text = str(query.get(name))
    if not _WHOLE.fullmatch(text):
        raise FileError("Invalid", f"{name} is not a whole number")
    return int(text)


def _wanted_sum(text: object, path: str) -> str:
    if not isinstance(text, str) or not _SHA256.fullmatch(text):
        raise FileError("Invalid", f"{path}: the SHA-256 is missing")
    return text


def _range(header: str | None, size: int, path: str) -> tuple[int, int]:
    """The first byte and the one after the last of an answer."""
    if header is None:
        return 0, size
    found = _RANGE.fullmatch(header)
    if found is None:
        raise FileError("Invalid", f"{path}: Range is not bytes=FIRST-LAST")
    start = int(found[1])
    end = min(size, int(found[2]) + 1) if found[2] else size
    if start >= end:
        raise FileError("Changed", f"{path}: has {size} bytes, and none from {start} on")
    return start, end
