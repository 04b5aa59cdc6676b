"""Takes one record of a file apart: an image as it is stored, and its label.

RecordIO: `magic u32 | flag << 29 | length u32 | data, padded to 4 bytes`. A record whose data holds
the magic number is stored in pieces without it: flag 0 is a whole record, 1, 2 and 3 are the first,
a middle and the last piece. The data is an IRHeader (flag u32, label f32, id u64, id2 u64), more
labels if its flag counts some, and the image.

TFRecord: `length u64 | masked CRC u32 | data | masked CRC u32`, little endian. The data is a
tf.train.Example with the features image/encoded and image/class/label, whose labels start at 1.
"""

import struct
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import NamedTuple

import google_crc32c

_MAGIC = struct.pack("<I", 0xCED7230A)
_PIECE = struct.Struct("<II")
_LENGTH_BITS = 29
_IMAGE_HEADER = struct.Struct("<IfQQ")
_FIRST, _LAST = (0, 1), (0, 3)

# Reads a part of a record: from a byte on, so many.
Read = Callable[[int, int], bytes]

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
# The features before the image take a few hundred bytes.
_HEAD = 2048
_ENCODED, _LABEL = b"image/encoded", b"image/class/label"
# How their entries of the map of features begin: every writer of protobuf puts the key first.
_WANTED = tuple(b"\n" + bytes((len(name),)) + name for name in (_ENCODED, _LABEL))


class LabelledImage(NamedTuple):
    """A record's image.

    Attributes:
        encoded: the image.
        label: from 0.
        identity: of the record, from its bytes, 64 bits: the id of RecordIO's header; the length
            and the checksum of a TFRecord's data.
    """

    encoded: bytes
    label: int
    identity: int


def is_record_io(file: RawIOBase) -> bool:
    """Whether a file begins like RecordIO; it is TFRecord otherwise."""
    return file.read(len(_MAGIC)) == _MAGIC


def record_io_offsets(file: RawIOBase) -> Iterator[int]:
    """Walk over the headers and yield where each record begins.

    Raises:
        ValueError: it is not RecordIO.
    """
    offset = file.seek(0)
    while header := file.read(_PIECE.size):
        flag, length = _piece(header)
        if flag in _FIRST:
            yield offset
        offset = file.seek(length + -length % 4, 1)


def tf_record_offsets(file: RawIOBase) -> Iterator[int]:
    """Walk over the headers and yield where each record begins.

    Raises:
        ValueError: it is not TFRecord.
    """
    offset = file.seek(0)
    while header := file.read(_LENGTH.size):
        length = _record_length(header)
        yield offset
        offset = file.seek(length + _CHECKSUM.size, 1)


def record_io_identity(read: Read, size: int) -> int:
    """Return the identity of a record, as `parse_record_io` does, without reading its image.

    Args:
        read: returns bytes of the record, from an offset on, so many.
        size: of the record.

    Raises:
        ValueError: the record is damaged.
    """
    head = read(0, min(size, _PIECE.size + _IMAGE_HEADER.size))
    _, length = _piece(head[: _PIECE.size])
    if length < _IMAGE_HEADER.size:
        # Its header holds the magic number, so that it is in pieces.
        return parse_record_io(read(0, size)).identity
    identity: int = _IMAGE_HEADER.unpack_from(head, _PIECE.size)[2]
    return identity


def record_io_label(read: Read, size: int) -> int:
    """Return the label of a record, as `parse_record_io` does, without reading its image.

    Raises:
        ValueError: the record is damaged.
    """
    head = read(0, min(size, _PIECE.size + _IMAGE_HEADER.size))
    _, length = _piece(head[: _PIECE.size])
    if length >= _IMAGE_HEADER.size:
        labels, label, _, _ = _IMAGE_HEADER.unpack_from(head, _PIECE.size)
        if not labels:
            return _whole(label)
    return parse_record_io(read(0, size)).label


def tf_record_label(read: Read, size: int) -> int:
    """Return the label of a record, as `parse_tf_record` does, from its head if that has it.

    Raises:
        ValueError: the record is damaged, or is no image.
    """
    head = read(0, min(size, _HEAD))
    data = head[_LENGTH.size :][: _record_length(head[: _LENGTH.size])]
    try:
        for name, kind, value in _features(data):
            if name == _LABEL and kind == 3:
                return _varint(next(_fields(value))[1], 0)[0] - 1
    except (IndexError, KeyError, StopIteration, ValueError):
        pass  # The head ends within a feature before the label.
    return parse_tf_record(read(0, size)).label


def tf_record_identity(read: Read, size: int) -> int:
    """Return the identity of a record, as `parse_tf_record` does, without reading its image.

    Raises:
        ValueError: the record is damaged.
    """
    length = _record_length(read(0, _LENGTH.size))
    checksum: int = _CHECKSUM.unpack(read(size - _CHECKSUM.size, _CHECKSUM.size))[0]
    return length << 32 | checksum


def parse_record_io(record: bytes) -> LabelledImage:
    """Return the image of a record.

    Raises:
        ValueError: the record is damaged.
    """
    pieces, offset, flag = [], 0, -1
    while offset < len(record) and flag not in _LAST:
        flag, length = _piece(record[offset : offset + _PIECE.size])
        offset += _PIECE.size
        pieces.append(record[offset : offset + length])
        if len(pieces[-1]) != length:
            raise ValueError("it is cut off")
        offset += length + -length % 4
    data = _MAGIC.join(pieces)
    if flag not in _LAST or len(data) < _IMAGE_HEADER.size:
        raise ValueError("it is no image")
    labels, label, identity, _ = _IMAGE_HEADER.unpack_from(data)
    if labels:
        (label,) = struct.unpack_from("<f", data, _IMAGE_HEADER.size)
    return LabelledImage(data[_IMAGE_HEADER.size + 4 * labels :], _whole(label), identity)


def parse_tf_record(record: bytes) -> LabelledImage:
    """Return the image of a record.

    Raises:
        ValueError: the record is damaged, or is no image.
    """
    length = _record_length(record[: _LENGTH.size])
    data = record[_LENGTH.size : _LENGTH.size + length]
    checksum = record[_LENGTH.size + length :]
    if len(data) != length or checksum != _masked_checksum(data):
        raise ValueError("the checksum of its data is wrong")
    encoded = label = None
    try:
        for name, kind, value in _features(data):
            if name == _ENCODED and kind == 1:
                encoded = next(_fields(value))[1]
            elif name == _LABEL and kind == 3:
                label = _varint(next(_fields(value))[1], 0)[0]
    except (IndexError, StopIteration):
        raise ValueError("it is no tf.train.Example") from None
    if encoded is None or label is None:
        raise ValueError("it lacks image/encoded or image/class/label")
    return LabelledImage(encoded, label - 1, length << 32 | _CHECKSUM.unpack(checksum)[0])


PARSERS = (parse_record_io, parse_tf_record)
"""By a format's number, which is what a decoder is told."""


def _whole(label: float) -> int:
    """A label of a RecordIO record, which has it as a floating-point number."""
    if not label.is_integer():
        raise ValueError(f"its label is {label}, and no whole number")
    return int(label)


def _piece(header: bytes) -> tuple[int, int]:
    """Return the flag and the length of a piece of a RecordIO record."""
    if len(header) != _PIECE.size or header[: len(_MAGIC)] != _MAGIC:
        raise ValueError("a record does not begin with the magic number")
    _, flag_and_length = _PIECE.unpack(header)
    return flag_and_length >> _LENGTH_BITS, flag_and_length & ((1 << _LENGTH_BITS) - 1)


def _record_length(header: bytes) -> int:
    if len(header) != _LENGTH.size or header[8:] != _masked_checksum(header[:8]):
        raise ValueError("the checksum of a record's length is wrong")
    length: int = _LENGTH.unpack(header)[0]
    return length


def _masked_checksum(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    return _CHECKSUM.pack(((checksum >> 15 | checksum << 17) + _MASK_DELTA) & 0xFFFFFFFF)


def _features(example: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the name, the kind of list and the list of each wanted feature.

    `example` shows the messages in protobuf's wire format.
    """
    for _, features in _fields(example):
        for _, entry in _fields(features):
            if not entry.startswith(_WANTED):
                continue
            pair = dict(_fields(entry))
            kind, values = next(_fields(pair[2]), (0, b""))
            yield pair[1], kind, values


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the content of each field of a message.

    The content of a number is its varint.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 2:
            length, at = _varint(message, at)
        elif wire_type == 0:
            length = _varint(message, at)[1] - at
        else:
            raise ValueError("it is no tf.train.Example of images")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and the byte after it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
