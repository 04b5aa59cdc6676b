"""A server of files on this machine, which answers requests for ranges and asks for a login."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serve(files: Mapping[str, bytes], user: str, password: str) -> Iterator[str]:
    """Serve files until the block ends; yield the URL of their folder.

    Args:
        files: Content by path, as ``/digits.tar``.
        user: Whom the server answers.
        password: The user's password.
    """
    login = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers["Authorization"] != login:
                self.send_error(HTTPStatus.UNAUTHORIZED)
                return
            content = files[self.path]
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
            assert wanted is not None
            first, last = (int(number) for number in wanted.groups())
            self.send_response(HTTPStatus.PARTIAL_CONTENT)
            part = content[first : last + 1]
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
