"""TFRecord: writes, checks and reads the files of TensorFlow's `tf.data.TFRecordDataset`.

A record is `length u64 | mask(crc of length) u32 | data | mask(crc of data) u32`, all little endian
(tensorflow/core/lib/io/record_writer.h); the checksums are CRC-32C, masked because CRCs of data
with CRCs are weak. The index is for the readers of this package; TensorFlow has none.

An image's data is a tf.train.Example, with the feature names of ImageNet's converters. The message
is written and read in protobuf's wire format, because TensorFlow is too large a dependency for one
kind of message:

    Example  { features: 1 = Features }
    Features { feature: 1 = map of string to Feature }    # entries { 1 = key, 2 = value }
    Feature  { bytes_list: 1 = BytesList, float_list: 2 = FloatList, or int64_list: 3 = Int64List }
    BytesList, FloatList, Int64List { value: 1 = … }      # numbers are packed

Features are sorted by name, so equal images have equal bytes. Labels start at 1, as ImageNet's
readers expect: 0 is the background.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from io import RawIOBase

import google_crc32c

from imagenet_workloads.dataset import TF_RECORD
from imagenet_workloads.records.format import (
    INDEX_LINE,
    Box,
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


def encode(data: list[bytes]) -> list[bytes]:
    """Return the chunks of one record, from the chunks of its data."""
    length = _LENGTH.pack(sum(map(len, data)))
    return [length + _masked([length]), *data, _masked(data)]


def count_records(blocks: Iterator[bytes]) -> int:
    """Count the records in the blocks of a .tfrecord file.

    ValueError if a checksum is wrong, or the bytes end inside a record.
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
    """Walk over the headers and yield where each record begins."""
    offset = file.seek(0)
    while header := file.read(_HEADER_BYTES):
        length = _length(header)
        yield offset
        offset = file.seek(length + _CHECKSUM.size, 1)


def parse(record: bytes) -> LabelledImage:
    """Return the image of a record."""
    length = _length(record[:_HEADER_BYTES])
    data = record[_HEADER_BYTES : _HEADER_BYTES + length]
    checksum = record[_HEADER_BYTES + length :]
    if len(data) != length or checksum != _masked([data]):
        raise ValueError("the checksum of its data is wrong")
    encoded, label = decode_example(data)
    return LabelledImage(encoded, label, length << 32 | _CHECKSUM.unpack(checksum)[0])


def read_identity(read: Read, size: int) -> int:
    """Return the identity of a record, as `parse` does, without reading its image."""
    length = _length(read(0, _HEADER_BYTES))
    checksum: int = _CHECKSUM.unpack(read(size - _CHECKSUM.size, _CHECKSUM.size))[0]
    return length << 32 | checksum


def read_label(read: Read, size: int) -> int:
    """Return the label of a record, as `parse` does, from its head if that has it."""
    head = read(0, min(size, _HEAD_BYTES))
    found = find_label(head[_HEADER_BYTES:][: _length(head[:_HEADER_BYTES])])
    return parse(read(0, size)).label if found is None else found


def _length(header: bytes) -> int:
    """The length of a record's data, which is used only if its checksum is right."""
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
    writer=partial(ShardWriter, lambda image: encode(encode_example(image))),
    count_records=count_records,
    offsets=offsets,
    parse=parse,
    read_identity=read_identity,
    read_label=read_label,
)


# Tags of length-delimited fields: number << 3 | 2.
_FIRST, _SECOND, _THIRD = (number << 3 | 2 for number in (1, 2, 3))
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = _FIRST, _SECOND, _THIRD
_ENCODED, _LABEL = b"image/encoded", b"image/class/label"
# How their entries of the map of features begin: every writer of protobuf puts the key first.
_WANTED = tuple(b"\n" + bytes((len(name),)) + name for name in (_ENCODED, _LABEL))


def encode_example(image: StoredImage) -> list[bytes]:
    """Return the bytes of the Example in chunks, without a copy of the JPEG."""
    before = b"".join(
        (
            _CHANNELS,
            _class_features(image.label, image.class_name, image.class_words),
            _COLORSPACE,
            _opening("image/encoded", _BYTES_LIST, len(image.jpeg)),
        )
    )
    after = b"".join(
        (
            _bytes_feature("image/filename", image.name),
            _FORMAT_FEATURE,
            _int64_feature("image/height", image.height),
            _box_features(image.boxes, image.label) if image.boxes else b"",
            _int64_feature("image/width", image.width),
        )
    )
    whole = len(before) + len(image.jpeg) + len(after)
    return [_opened(_FIRST, b"", whole) + before, image.jpeg, after]


@lru_cache(maxsize=4096)
def _class_features(label: int, class_name: str, class_words: str) -> bytes:
    """The common bytes of the images of a class."""
    name = class_name.encode()
    return b"".join(
        (
            _int64_feature("image/class/label", label + 1),
            _bytes_feature("image/class/synset", name),
            _bytes_feature("image/class/text", class_words.encode()),
        )
    )


def _box_features(boxes: tuple[Box, ...], label: int) -> bytes:
    edges = [
        _packed_feature(f"image/object/bbox/{name}", _FLOAT_LIST, struct.pack(f"<{len(of)}f", *of))
        for name in ("xmax", "xmin", "ymax", "ymin")
        for of in [[getattr(box, name) for box in boxes]]
    ]
    labels = varint(label + 1) * len(boxes)
    return b"".join((_packed_feature("image/object/bbox/label", _INT64_LIST, labels), *edges))


def _bytes_feature(name: str, value: bytes) -> bytes:
    return _opening(name, _BYTES_LIST, len(value)) + value


def _int64_feature(name: str, value: int) -> bytes:
    return _packed_feature(name, _INT64_LIST, varint(value))


def _packed_feature(name: str, kind: int, packed: bytes) -> bytes:
    return _opening(name, kind, len(packed)) + packed


def _opening(name: str, kind: int, size: int) -> bytes:
    """All of a feature, an entry of the map, but its one value of so many bytes at the end."""
    value = _opened(_FIRST, b"", size)
    values = _opened(kind, value, size)
    feature = _opened(_SECOND, values, size)
    key = name.encode()
    return _opened(_FIRST, _opened(_FIRST, b"", len(key)) + key + feature, size)


def _opened(tag: int, start: bytes, size: int) -> bytes:
    """The start of a field that holds `start` and so many bytes more."""
    return bytes((tag,)) + varint(len(start) + size) + start


def varint(value: int) -> bytes:
    """Return a non-negative integer in groups of 7 bits, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def decode_example(data: bytes) -> tuple[bytes, int]:
    """Return the image of an Example, and its label from 0.

    ValueError if it is no Example of an image.
    """
    encoded = label = None
    try:
        for name, kind, value in _features(data):
            if name == _ENCODED and kind == _BYTES_LIST:
                encoded = next(_fields(value))[1]
            elif name == _LABEL and kind == _INT64_LIST:
                label = _read_varint(next(_fields(value))[1], 0)[0]
    except (IndexError, KeyError, StopIteration):
        raise ValueError("it is no tf.train.Example") from None
    if encoded is None or label is None:
        raise ValueError("it lacks image/encoded or image/class/label")
    return encoded, label - 1


def find_label(head: bytes) -> int | None:
    """Return the label, from 0, of an Example that begins so; None if the label comes later."""
    try:
        for name, kind, value in _features(head):
            if name == _LABEL and kind == _INT64_LIST:
                return _read_varint(next(_fields(value))[1], 0)[0] - 1
    except (IndexError, KeyError, StopIteration, ValueError):
        pass  # The head ends within a feature before the label.
    return None


def _features(example: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the name, the tag of the list and the list of each wanted feature."""
    for _, features in _fields(example):
        for _, entry in _fields(features):
            if not entry.startswith(_WANTED):
                continue
            pair = dict(_fields(entry))
            kind, values = next(_fields(pair[_SECOND]), (0, b""))
            yield pair[_FIRST], kind, values


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each field of a message; of a number, its varint."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        wire_type = tag & 7
        if wire_type == 2:
            length, at = _read_varint(message, at)
        elif wire_type == 0:
            length = _read_varint(message, at)[1] - at
        else:
            raise ValueError("it is no tf.train.Example of images")
        yield tag, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, and the byte after it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


_CHANNELS = _int64_feature("image/channels", 3)
_COLORSPACE = _bytes_feature("image/colorspace", b"RGB")
_FORMAT_FEATURE = _bytes_feature("image/format", b"JPEG")
