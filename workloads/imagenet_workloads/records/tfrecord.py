"""TFRecord: writes and checks the files of TensorFlow's `tf.data.TFRecordDataset`.

A record is `length u64 | mask(crc of length) u32 | data | mask(crc of data) u32`, all little endian
(tensorflow/core/lib/io/record_writer.h); the checksums are CRC-32C, masked because CRCs of data
with CRCs are weak. An image's data is a tf.train.Example (`example`). The index is for the readers
of this package; TensorFlow has none.
"""

import struct
from collections.abc import Iterable, Iterator

import google_crc32c

from imagenet_workloads.dataset import TF_RECORD
from imagenet_workloads.records import example
from imagenet_workloads.records.format import (
    INDEX_LINE,
    Chunks,
    Format,
    ShardWriter,
    StoredImage,
    Stream,
)

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


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
        length = stream.read(_LENGTH.size)
        # Before the length is used.
        if stream.read(_CHECKSUM.size) != _masked([length]):
            raise ValueError("the checksum of a record's length is wrong")
        found = _masked(stream.chunks(*_LENGTH.unpack(length)))
        if stream.read(_CHECKSUM.size) != found:
            raise ValueError("the checksum of a record's data is wrong")
        records += 1
    return records


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
)
