"""TFRecord: writes, checks and reads the files of TensorFlow's `tf.data.TFRecordDataset`.

A record is `length u64 | mask(crc of length) u32 | data | mask(crc of data) u32`, all little endian
(tensorflow/core/lib/io/record_writer.h); the checksums are CRC-32C, masked because CRCs of data
with CRCs are weak. An image's data is a tf.train.Example (`example`). The index is for the readers
of this package; TensorFlow has none.
"""

import struct
from collections.abc import Iterable, Iterator
from io import RawIOBase

import google_crc32c

from imagenet_workloads.dataset import TF_RECORD
from imagenet_workloads.records import example
from imagenet_workloads.records.format import (
    INDEX_LINE,
    Chunks,
    Format,
    LabelledImage,
    Read,
    ShardWriter,
    StoredImage,
    Stream,
)

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _LENGTH.size + _CHECKSUM.size
_MASK_DELTA = 0xA282EAD8
# The features before the image take a few hundred bytes.
_HEAD_BYTES = 2048


class Writer(ShardWriter):
    """Appends images to a .tfrecord file and their offsets to its .idx file."""

    @staticmethod
    def encode(image: StoredImage) -> Chunks:
        """Return the chunks of a record."""
        return encode(example.encode(image))


def encode(data: list[bytes]) -> list[bytes]:
    """Return the chunks of one record, from the chunks of its data."""
    length = _LENGTH.pack(sum(map(len, data)))
    return [length + _masked([length]), *data, _masked(data)]


def count_records(blocks: Iterator[bytes]) -> int:
    """Count the records in the blocks of a .tfrecord file.

    Raises:
        ValueError: A checksum is wrong, or the bytes end inside a record.
    """
    stream = Stream(blocks)
    records = 0
    while not stream.at_end():
        found = _masked(stream.chunks(_length(stream.read(_HEADER_BYTES))))
        if stream.read(_CHECKSUM.size) != found:
            raise ValueError("the checksum of a record's data is wrong")
        records += 1
    return records


def offsets(file: RawIOBase) -> Iterator[int]:
    """Walk over the headers and yield where each record begins.

    Raises:
        ValueError: it is not TFRecord.
    """
    offset = file.seek(0)
    while header := file.read(_HEADER_BYTES):
        length = _length(header)
        yield offset
        offset = file.seek(length + _CHECKSUM.size, 1)


def parse(record: bytes) -> LabelledImage:
    """Return the image of a record.

    Raises:
        ValueError: the record is damaged, or is no image.
    """
    length = _length(record[:_HEADER_BYTES])
    data = record[_HEADER_BYTES : _HEADER_BYTES + length]
    checksum = record[_HEADER_BYTES + length :]
    if len(data) != length or checksum != _masked([data]):
        raise ValueError("the checksum of its data is wrong")
    encoded, label = example.decode(data)
    return LabelledImage(encoded, label, length << 32 | _CHECKSUM.unpack(checksum)[0])


def read_identity(read: Read, size: int) -> int:
    """Return the identity of a record, as `parse` does, without reading its image.

    Args:
        read: returns bytes of the record, from an offset on, so many.
        size: of the record.

    Raises:
        ValueError: the record is damaged.
    """
    length = _length(read(0, _HEADER_BYTES))
    checksum: int = _CHECKSUM.unpack(read(size - _CHECKSUM.size, _CHECKSUM.size))[0]
    return length << 32 | checksum


def read_label(read: Read, size: int) -> int:
    """Return the label of a record, as `parse` does, from its head if that has it.

    Raises:
        ValueError: the record is damaged, or is no image.
    """
    head = read(0, min(size, _HEAD_BYTES))
    found = example.find_label(head[_HEADER_BYTES:][: _length(head[:_HEADER_BYTES])])
    return parse(read(0, size)).label if found is None else found


def _length(header: bytes) -> int:
    """Return the length of a record's data, which is used only if its checksum is right."""
    encoded = header[: _LENGTH.size]
    if len(header) != _HEADER_BYTES or header[_LENGTH.size :] != _masked([encoded]):
        raise ValueError("the checksum of a record's length is wrong")
    length: int = _LENGTH.unpack(encoded)[0]
    return length


def _masked(chunks: Iterable[bytes]) -> bytes:
    crc = 0
    for chunk in chunks:
        crc = google_crc32c.extend(crc, chunk)
    rotated = crc >> 15 | crc << 17
    return _CHECKSUM.pack(rotated + _MASK_DELTA & 0xFFFFFFFF)


FORMAT = Format(
    name=TF_RECORD,
    suffix="tfrecord",
    requires_index=False,
    # Two thirds of a record's part are the features' names.
    overhead=384 + INDEX_LINE,
    writer=Writer,
    count_records=count_records,
    offsets=offsets,
    parse=parse,
    read_identity=read_identity,
    read_label=read_label,
)
