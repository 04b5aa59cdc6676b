"""Limits of the small HTTP servers of the pods: connections, their time, and bytes of a request.

`server` and Horovod's rendezvous use it. Any pod may connect where no NetworkPolicy is enforced.
So a slow or endless request must not use up threads or memory, nor keep others from an answer.
"""

import io
import socket
import sys
import threading
import time
from contextlib import suppress
from socketserver import StreamRequestHandler, TCPServer, ThreadingMixIn
from typing import Any


class LimitedConnections(ThreadingMixIn, TCPServer):
    """Handles each connection in a thread, and closes those that last too long.

    If all threads are taken, the oldest connection is closed: a new one, which may be a scrape,
    waits for no slow client.

    Attributes:
        most_connections: The limit of connections, and so of threads.
        longest_seconds: The limit of a connection's whole time.
    """

    daemon_threads = True
    # A burst waits here instead of connecting again after a second.
    request_queue_size = 1024
    most_connections = 16
    longest_seconds = 10.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of the other base classes."""
        self._begun: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a connection."""
        with self._changed:
            if len(self._begun) >= self.most_connections:
                _close(next(iter(self._begun)))
                self._changed.wait_for(lambda: len(self._begun) < self.most_connections)
            self._begun[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection; its end makes room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: Any) -> None:
        with self._changed:
            self._begun.pop(request, None)
            self._changed.notify()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, but not that a client has left or was closed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def service_actions(self) -> None:
        """Close connections that last too long; called every half second."""
        super().service_actions()
        with self._changed:
            oldest = time.monotonic() - self.longest_seconds
            for request, begun in self._begun.items():
                if begun < oldest:
                    _close(request)


def _close(request: socket.socket) -> None:
    """Let the thread of a connection end: what it reads is empty, what it writes fails."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class LimitedRequest(StreamRequestHandler):
    """Reads at most `most_bytes` of a request; the rest seems not to be there."""

    most_bytes = 2**14

    def setup(self) -> None:
        """Limit what is read."""
        super().setup()
        self.rfile = io.BufferedReader(_Limited(self.rfile, self.most_bytes))


class _Limited(io.RawIOBase):
    def __init__(self, file: Any, most_bytes: int) -> None:
        self._file, self._left = file, most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.readinto1(memoryview(buffer)[: self._left])
        self._left -= read
        return int(read)

    def close(self) -> None:
        self._file.close()
        super().close()
