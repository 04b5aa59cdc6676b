"""The interface of a format: the suffix of its files, a writer, a check, and a reader."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import RawIOBase
from typing import BinaryIO, NamedTuple

# One limit for all formats, so that they have the same images: RecordIO's lengths of 29 bits, less
# its headers.
LARGEST_JPEG = (1 << 29) - 1024
# Of the index files of every format.
INDEX_SUFFIX = "idx"
# Of a line of an index; most are shorter.
INDEX_LINE = 32

Chunks = list[bytes]

# Reads a part of a record: from an offset on, so many bytes.
Read = Callable[[int, int], bytes]


class Box(NamedTuple):
    """The edges of an object as fractions of the image's width and height, 0 to 1."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float


class StoredImage(NamedTuple):
    """The fields of a record; a format may omit some of them.

    Attributes:
        key: its number in the split.
        class_words: what people call the class; its name if there are no words.
        name: of its file in the source, as bytes because it may not be UTF-8.
        boxes: of its objects, as fractions of this image.
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


class LabelledImage(NamedTuple):
    """A record's image, with its label from 0.

    `identity` is of the record, from its bytes, 64 bits: the id of RecordIO's header; the length
    and the checksum of a TFRecord's data.
    """

    encoded: bytes
    label: int
    identity: int


@dataclass(frozen=True)
class Format:
    """A file format of records.

    All that read raise ValueError if the bytes are damaged.

    Attributes:
        name: the value of `spec.dataset.preprocessing.format`.
        suffix: of the files of records.
        requires_index: whether each shard has an index; older versions wrote TFRecord without one.
        overhead: the approximate bytes of a record besides its JPEG, and of its line in the index.
        offsets: yields where each record of a file begins, from the headers alone.
        read_identity: returns the identity of a record of so many bytes, without reading its image.
        read_label: returns its label, likewise.
    """

    name: str
    suffix: str
    requires_index: bool
    overhead: int
    writer: Callable[[BinaryIO, BinaryIO], "ShardWriter"]
    count_records: Callable[[Iterator[bytes]], int]
    offsets: Callable[[RawIOBase], Iterator[int]]
    parse: Callable[[bytes], LabelledImage]
    read_identity: Callable[[Read, int], int]
    read_label: Callable[[Read, int], int]


class HashedFile:
    """An append-only file, its bytes so far and their checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.bytes = 0

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self._hash.update(content)
        self.bytes += len(content)

    def sha256(self) -> str:
        return self._hash.hexdigest()


class ShardWriter:
    """Appends images to a file of records, and lines of `key<TAB>byte offset` to its index.

    The caller closes the two files.
    """

    def __init__(
        self, encode: Callable[[StoredImage], Chunks], record: BinaryIO, index: BinaryIO
    ) -> None:
        self._encode = encode
        self._record = HashedFile(record)
        self._index = HashedFile(index)
        self.records = 0

    @property
    def bytes(self) -> int:
        return self._record.bytes

    def append(self, images: Iterable[StoredImage]) -> None:
        """Write a batch of images, because each write and checksum has a cost.

        ValueError if one is too large for a record.
        """
        chunks: list[bytes] = []
        lines: list[bytes] = []
        position = self.bytes
        for image in images:
            lines.append(b"%d\t%d\n" % (image.key, position))
            record = self._encode(image)
            chunks += record
            position += sum(map(len, record))
        self._record.write(b"".join(chunks))
        self._index.write(b"".join(lines))
        self.records += len(lines)

    def sha256(self) -> tuple[str, str]:
        return self._record.sha256(), self._index.sha256()


class Stream:
    """Reads blocks of bytes in chunks of other lengths; ValueError if fewer bytes remain."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = b""
        self._position = 0

    def at_end(self) -> bool:
        while self._position == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return True
            self._block, self._position = block, 0
        return False

    def read(self, length: int) -> bytes:
        return b"".join(self.chunks(length))

    def chunks(self, length: int) -> Iterator[bytes]:
        while length:
            if self.at_end():
                raise ValueError("the file ends inside a record")
            chunk = self._block[self._position : self._position + length]
            self._position += len(chunk)
            length -= len(chunk)
            yield chunk

    def skip(self, length: int) -> None:
        while length:
            if self.at_end():
                raise ValueError("the file ends inside a record")
            step = min(length, len(self._block) - self._position)
            self._position += step
            length -= step
