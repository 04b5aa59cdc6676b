"""Files of servers and buckets: by what a change is noticed, and how few requests they take.

A tar's headers are read one block at a time, and behind a network each read is a request. So
`HeaderWindow` reads more than asked for: a few KiB if the members are large, and more and more
ahead if the next header is near. An operating system reads a file in the same way.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.stores.blob import Blob, FileSet, Kept, changed

MOST_REQUESTS = 4_000_000
"""The default limit: ILSVRC2012 takes 2.6 million requests, two for each image."""

# The bytes of a tar's header.
_HEADER = 512
# Enough for a header with the long name or the pax records before it.
SMALLEST = 4 << 10
LARGEST = 1 << 20
# Beyond this distance, another request is cheaper than the bytes between.
_NEAR = 64 << 10


@dataclass(frozen=True)
class Version:
    """By what a file of a server is recognized: equal versions have equal bytes.

    Attributes:
        where: the file's address, without query.
        size: in bytes; 0 if the server gives none.
        etag: as the server writes it, with its quotes; empty if it gives none.
        last_modified: as the server writes it; empty if it gives none.
    """

    where: str
    size: int
    etag: str = ""
    last_modified: str = ""

    def to_document(self) -> dict[str, Any]:
        """As JSON values, for the plan."""
        return {
            "where": self.where,
            "size": self.size,
            "etag": self.etag,
            "lastModified": self.last_modified,
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> "Version":
        return cls(
            fields.text("where"),
            fields.integer("size"),
            fields.text("etag"),
            fields.text("lastModified"),
        )

    def require(self, now: "Version") -> None:
        """Raises an `InputError` if the file has changed."""
        if self.size != now.size:
            raise changed(self.where, f"has {now.size} bytes in place of {self.size}")
        # An ETag decides: some servers give another time for each of their machines.
        if self.etag and now.etag:
            name, before, after = "ETag", self.etag, now.etag
        else:
            name, before, after = "Last-Modified", self.last_modified, now.last_modified
        if before and after and before != after:
            raise changed(self.where, f"has the {name} {after} in place of {before}")


class RemoteBlob(Blob, Protocol):
    """A `Blob` whose reads wait for a network.

    Attributes:
        at_once: the most requests at the same time; 1 for a file that is in a cache.
        cache_field: the field of the manifest that has the file stored first; empty if it is.
    """

    at_once: int
    cache_field: str

    @property
    def version(self) -> Version:
        """The version of the first request; later reads are of the same one."""


class RemoteFiles(FileSet):
    """Files of a server or bucket, which stay open until `close`."""

    has_tags = True

    def __init__(
        self,
        where: str,
        names: Sequence[str],
        open_blob: Callable[[str], RemoteBlob],
        at_once: int,
    ) -> None:
        self.where = where
        self.names = names
        self.reads_at_once = at_once
        # Opens a file that the caller closes.
        self.blob = open_blob
        self._blobs: dict[str, RemoteBlob] = {}

    def open(self, name: str) -> Blob:
        """The file, whose connections stay open when it is closed."""
        return Kept(self._blob(name))

    def tag(self, name: str) -> str:
        return self._blob(name).version.etag

    def close(self) -> None:
        for blob in self._blobs.values():
            blob.close()

    def _blob(self, name: str) -> RemoteBlob:
        blob = self._blobs.get(name)
        if blob is None:
            # Two threads may open it at the same time; both use the first blob.
            blob = self._blobs.setdefault(name, self.blob(name))
        return blob


@dataclass(frozen=True)
class WholeFile:
    """A file of a server without ranges, which only sends it from its start.

    The version is that of the first answer; its size is 0 if the server gives none. `receive` calls
    a function with the version and the chunks of each try.
    """

    version: Version
    receive: Callable[[Callable[[Version, Iterable[bytes]], None]], None]
    close: Callable[[], None]


class Limit(NamedTuple):
    """How many requests a source may take, of index and pack together.

    `cache_field` is the field of the manifest that has the files stored first. No cache stores
    loose images, of which each is an object.
    """

    most: int
    cache_field: str
    is_loose: bool = False

    def require_plan(self, where: str, listing: int, packing: int) -> None:
        """Raises an `InputError` if listing and packing take more requests than allowed."""
        if listing + packing <= self.most:
            return
        remedy = f"write {self.cache_field}, which stores the files first"
        if self.is_loose:
            remedy = f"write a prefix with archives in place of images, and {self.cache_field}"
        raise InputError(
            f"{where}: listing took {listing} requests and packing takes {packing}, and "
            f"{self.most} are allowed; raise maxRequests, or {remedy}"
        )


class _Window(threading.local):
    """The bytes that one thread has read last."""

    offset = 0
    data = b""
    size = SMALLEST


class HeaderWindow:
    """A `Blob` that answers small reads from a window, one for each thread."""

    def __init__(self, blob: Blob, small: int = _HEADER, largest: int = LARGEST) -> None:
        """Takes over a blob, whose bytes do not change, for windows of at most `largest` bytes.

        Reads of at most `small` bytes are answered from it: headers by default. The data of images
        is larger, and not read twice.
        """
        self.where = blob.where
        self.size = blob.size
        self._blob = blob
        self._small = small
        self._largest = largest
        self._window = _Window()

    def read(self, offset: int, size: int) -> bytes:
        window = self._window
        start = offset - window.offset
        if start >= 0 and start + size <= len(window.data):
            return window.data[start : start + size]
        if size > self._small:
            return self._blob.read(offset, size)
        is_near = bool(window.data) and 0 <= start <= len(window.data) + _NEAR
        window.size = min(self._largest, window.size * 2) if is_near else SMALLEST
        wanted = min(max(size, window.size), self.size - offset)
        window.data = self._blob.read(offset, max(0, wanted))
        window.offset = offset
        return window.data[:size]

    def close(self) -> None:
        self._window.data = b""
        self._blob.close()
