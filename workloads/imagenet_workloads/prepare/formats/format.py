"""The interface of a format: suffixes of files, a writer, and a check."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

from imagenet_workloads.prepare.annotations import Box

# One limit for all formats, so that they have the same images: RecordIO's lengths of 29 bits, less
# its headers.
LARGEST_JPEG = (1 << 29) - 1024


class StoredImage(NamedTuple):
    """The fields of a record; a format may omit some of them.

    Attributes:
        key: Its number in the split.
        label: The position of its class.
        class_name: The class.
        class_words: What people call it; the class if there are no words.
        name: The name of its file in the source, as bytes because it may not be UTF-8.
        height: The height of the image in pixels.
        width: likewise.
        jpeg: The image.
        boxes: The boxes of its objects, as fractions of this image.
    """

    key: int
    label: int
    class_name: str
    class_words: str
    name: bytes
    height: int
    width: int
    jpeg: bytes
    boxes: tuple[Box, ...] = ()


class ShardWriter(Protocol):
    """Appends images to the files of one shard."""

    @property
    def bytes(self) -> int:
        """Written to the file of records so far."""

    @property
    def records(self) -> int:
        """Likewise."""

    def append(self, images: Iterable[StoredImage]) -> None:
        """Write a batch of images, because each write and checksum has a cost.

        Raises:
            ValueError: One is too large for a record.
        """

    def sha256(self) -> tuple[str, str | None]:
        """Return the hex SHA-256 of the file of records, and of its index if there is one."""


@dataclass(frozen=True)
class Format:
    """A file format of records.

    Attributes:
        name: The value of `spec.dataset.preprocessing.format`.
        suffix: The suffix of the files of records.
        index_suffix: The suffix of the index files; None without them.
        overhead: The approximate bytes of a record besides its JPEG.
        writer: Creates the writer of a shard from its empty file of records and, if any, its index.
            The caller closes them.
        count_records: Counts the records in the blocks of a file; raises ValueError if they are
            damaged.
    """

    name: str
    suffix: str
    index_suffix: str | None
    overhead: int
    writer: Callable[..., ShardWriter]
    count_records: Callable[[Iterator[bytes]], int]


class HashedFile:
    """An append-only file and its checksum.

    Attributes:
        bytes: The bytes written so far.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Take an empty file, which the caller closes."""
        self._file = file
        self._hash = hashlib.sha256()
        self.bytes = 0

    def write(self, content: bytes) -> None:
        """Appends."""
        self._file.write(content)
        self._hash.update(content)
        self.bytes += len(content)

    def sha256(self) -> str:
        """Return the hex SHA-256 of all written bytes."""
        return self._hash.hexdigest()


class Stream:
    """Reads blocks of bytes in chunks of other lengths."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        """Read nothing yet."""
        self._blocks = blocks
        self._block = b""
        self._position = 0

    def at_end(self) -> bool:
        """Whether nothing is left."""
        while self._position == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return True
            self._block, self._position = block, 0
        return False

    def read(self, length: int) -> bytes:
        """Return the next bytes.

        Raises:
            ValueError: Fewer remain.
        """
        return b"".join(self.chunks(length))

    def chunks(self, length: int) -> Iterator[bytes]:
        """Yield the next bytes, in the available chunks.

        Raises:
            ValueError: Fewer remain.
        """
        while length:
            if self.at_end():
                raise ValueError("the file ends inside a record")
            chunk = self._block[self._position : self._position + length]
            self._position += len(chunk)
            length -= len(chunk)
            yield chunk

    def skip(self, length: int) -> None:
        """Skip the next bytes.

        Raises:
            ValueError: Fewer remain.
        """
        while length:
            if self.at_end():
                raise ValueError("the file ends inside a record")
            step = min(length, len(self._block) - self._position)
            self._position += step
            length -= step
