"""Reads a remote tar's headers, or its small members too, with few requests.

A tar's headers are read one block at a time, and behind a network each read is a request. So this
`Blob` reads more than asked for: a few KiB if the members are large, and more and more ahead if the
next header is near. An operating system reads a file in the same way.
"""

import threading

from imagenet_workloads.prepare.sources.source import Blob
from imagenet_workloads.prepare.sources.tar import BLOCK

# Enough for a header with the long name or the pax records before it.
SMALLEST = 4 << 10
LARGEST = 1 << 20
# Beyond this distance, another request is cheaper than the bytes between.
_NEAR = 64 << 10


class _Window(threading.local):
    """The bytes that one thread has read last."""

    offset = 0
    data = b""
    size = SMALLEST


class HeaderWindow:
    """A `Blob` that answers small reads from a window, one for each thread."""

    def __init__(self, blob: Blob, small: int = BLOCK) -> None:
        """Takes over a blob.

        Args:
            blob: its bytes do not change.
            small: the most bytes of a small read; by default those of a header. The data of images
                is larger, and not read twice.
        """
        self.where = blob.where
        self.size = blob.size
        self._blob = blob
        self._small = small
        self._window = _Window()

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        window = self._window
        start = offset - window.offset
        if start >= 0 and start + size <= len(window.data):
            return window.data[start : start + size]
        if size > self._small:
            return self._blob.read(offset, size)
        is_near = bool(window.data) and 0 <= start <= len(window.data) + _NEAR
        window.size = min(LARGEST, window.size * 2) if is_near else SMALLEST
        wanted = min(max(size, window.size), self.size - offset)
        window.data = self._blob.read(offset, max(0, wanted))
        window.offset = offset
        return window.data[:size]

    def close(self) -> None:
        """Closes the blob."""
        self._window.data = b""
        self._blob.close()
