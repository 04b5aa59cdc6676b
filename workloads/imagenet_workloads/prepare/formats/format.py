"""What pack and seal know of a format: its files' endings, a writer, and a check."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

# One limit for every format, so that none decides which images a dataset has: what RecordIO, whose
# lengths have 29 bits, leaves beside its headers.
LARGEST_JPEG = (1 << 29) - 1024


class StoredImage(NamedTuple):
    """What a record is made of; a format may leave some of it out.

    Attributes:
        key: its number in the split.
        label: position of its class.
        class_name: the class.
        name: of its file in the source, as bytes since it may be no UTF-8.
        height: of the image, in pixels.
        width: likewise.
        jpeg: the image.
    """

    key: int
    label: int
    class_name: str
    name: bytes
    height: int
    width: int
    jpeg: bytes


class ShardWriter(Protocol):
    """Appends images to the files of one shard."""

    @property
    def bytes(self) -> int:
        """Written to the file of records so far."""

    @property
    def records(self) -> int:
        """Likewise."""

    def append(self, images: Iterable[StoredImage]) -> None:
        """Writes a few images, together since each write and checksum has a price of its own.

        Raises:
            ValueError: one is too large for a record.
        """

    def sha256(self) -> tuple[str, str | None]:
        """The hex SHA-256 of the file of records and, where there is one, of its index."""


@dataclass(frozen=True)
class Format:
    """One way to keep a dataset's records in files.

    Attributes:
        name: as in the ImageNetJob's `spec.dataset.preprocessing.format`.
        suffix: of the files of records.
        index_suffix: of the files that say where each record begins; None without them.
        overhead: bytes that an image takes beside its JPEG, about.
        writer: of a shard, given its file of records and, where there are some, its index; both
            open for writing and empty. Closing them is the caller's.
        count_records: counts the records in the bytes of a file, given block by block; raises
            ValueError where these are not whole.
    """

    name: str
    suffix: str
    index_suffix: str | None
    overhead: int
    writer: Callable[..., ShardWriter]
    count_records: Callable[[Iterator[bytes]], int]


class HashedFile:
    """A file that is only appended to, and its checksum.

    Attributes:
        bytes: written so far.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Takes an empty file; closing it is the caller's."""
        self._file = file
        self._hash = hashlib.sha256()
        self.bytes = 0

    def write(self, content: bytes) -> None:
        """Appends."""
        self._file.write(content)
        self._hash.update(content)
        self.bytes += len(content)

    def sha256(self) -> str:
        """The hex SHA-256 of all that was written."""
        return self._hash.hexdigest()


class Stream:
    """Bytes that come in blocks, read in chunks of other lengths."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        """Reads nothing yet."""
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
        """The next bytes, so many.

        Raises:
            ValueError: fewer are left.
        """
        return b"".join(self.chunks(length))

    def chunks(self, length: int) -> Iterator[bytes]:
        """The next bytes, so many, in chunks as they come; as much of them as is taken.

        Raises:
            ValueError: fewer are left.
        """
        while length:
            if self.at_end():
                raise ValueError("the file ends inside a record")
            chunk = self._block[self._position : self._position + length]
            self._position += len(chunk)
            length -= len(chunk)
            yield chunk

    def skip(self, length: int) -> None:
        """Passes over the next bytes, so many.

        Raises:
            ValueError: fewer are left.
        """
        while length:
            if self.at_end():
                raise ValueError("the file ends inside a record")
            step = min(length, len(self._block) - self._position)
            self._position += step
            length -= step
