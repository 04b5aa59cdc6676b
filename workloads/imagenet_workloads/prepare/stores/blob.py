"""Bytes, wherever they lie: read by ranges, as a whole, or by the name of their file.

A store gives these for the files of a volume, of a server or of a bucket. What is in them, an image
or an archive of images, it does not know.
"""

import io
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from imagenet_workloads import files
from imagenet_workloads.errors import InputError


class Blob(Protocol):
    """Bytes that can be read in ranges: a file, an object in a bucket, a page of a server."""

    @property
    def where(self) -> str:
        """The name in messages: a path or a URL."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range, fewer at the end; may be called from several threads.

        Raises:
            OSError: the range cannot be read.
        """

    def close(self) -> None:
        """Closes the blob."""


class Part:
    """A range of a blob as a `Blob`, such as an archive in an archive, which closes it."""

    def __init__(self, blob: Blob, where: str, start: int, size: int) -> None:
        self.where = where
        self.start = start
        self.size = size
        self._blob = blob

    def read(self, offset: int, size: int) -> bytes:
        size = min(size, self.size - offset)
        return self._blob.read(self.start + offset, size) if size > 0 else b""

    def close(self) -> None:
        self._blob.close()


class Kept:
    """A `Blob` that stays open when it is closed."""

    def __init__(self, blob: Blob) -> None:
        self.where = blob.where
        self.size = blob.size
        self.read = blob.read

    def close(self) -> None:
        """Closes nothing."""


class BlobFile(io.RawIOBase):
    """A `Blob` as a file of Python."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._blob.size}
        self._position = start[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._blob.size - self._position)
        data = self._blob.read(self._position, left if size < 0 else min(size, left))
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class LabelFile:
    """A small file, of labels or of words; str() is its name in messages.

    `open` raises an `OSError` if it cannot be read, an `InputError` if it is none or has changed.
    `beside` gives the file of a name in the same folder; None if there is none.
    """

    where: str
    open: Callable[[], io.BufferedReader]
    beside: Callable[[str], "LabelFile | None"]

    def __str__(self) -> str:
        return self.where


class FileSet(ABC):
    """Some files, sorted by name; may be used from several threads.

    Attributes:
        where: its name in messages: a path or a URL without query.
        names: paths of the files from there.
        reads_at_once: the reads that may wait for a network at the same time; 1 for a volume.
        has_tags: whether `tag` tells another version of a file.
    """

    where: str
    names: Sequence[str]
    reads_at_once: int = 1
    has_tags: bool = False

    @abstractmethod
    def open(self, name: str) -> Blob:
        """Opens a file, which the caller closes; an `InputError` if it cannot be read."""

    def tag(self, name: str) -> str:
        """The ETag of a file; empty on a volume, or if the server gives none."""
        del name
        return ""

    def label_file(self, path: str) -> LabelFile | None:
        """A file of labels beside the files; None without one."""
        del path
        return None

    def close(self) -> None:  # noqa: B027
        """Closes connections; by default there are none."""


def file_on_volume(path: Path) -> LabelFile:
    """A file of a file system as a `LabelFile`."""

    def beside(name: str) -> LabelFile | None:
        other = path.with_name(name)
        return file_on_volume(other) if files.exists(other) else None

    return LabelFile(str(path), lambda: os.fdopen(files.open_file(path), "rb"), beside)


def in_memory(content: bytes) -> io.BufferedReader:
    """Some bytes as an open file."""
    return io.BufferedReader(io.BytesIO(content))


def read_once(file: LabelFile) -> LabelFile:
    """A file whose content is read now, and then stays in memory."""
    content = content_of(file)
    return replace(file, open=lambda: in_memory(content))


def as_label_file(file: Path | LabelFile) -> LabelFile:
    """A path or label file as a label file."""
    return file_on_volume(file) if isinstance(file, Path) else file


def content_of(file: Path | LabelFile) -> bytes:
    """All bytes of a file; an `InputError` if it cannot be read."""
    try:
        with as_label_file(file).open() as opened:
            return opened.read()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error


def readable(name: str) -> str:
    """A printable name: bytes that are not UTF-8 become escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class SourceChangedError(InputError):
    """A source differs from the plan, or from an earlier answer of the server."""


def changed(where: str, what: str) -> SourceChangedError:
    """The error for a source that differs from the plan; the caller raises it."""
    return SourceChangedError(
        f"{readable(where)}: {readable(what)}: the source has changed since it was "
        "indexed; run imagenet-index again"
    )


class DamagedImageError(Exception):
    """An image cannot be read without loss; the message says why."""


# Calls in flight for each thread, so that none waits for the reader of the results.
_CALLS_AHEAD = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Generator[Result]:
    """Yields the result for each item, in the items' order.

    As many calls as `threads` run at the same time. Items are taken as far ahead as they need. What
    `function` raises for an item is raised in place of its result.
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="in-order")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= threads * _CALLS_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
