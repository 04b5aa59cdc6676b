"""Reads TFRecord and tf.train.Example without TensorFlow, and without the code under test.

Written from the formats' descriptions, bit by bit: slow, and with no package for the checksums.
"""

import struct
from collections.abc import Iterator

# The polynomial of CRC-32C (Castagnoli), its bits reversed.
POLYNOMIAL = 0x82F63B78

Features = dict[str, list[bytes] | list[int] | list[float]]


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ POLYNOMIAL if value & 1 else value >> 1
        entries.append(value)
    return tuple(entries)


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The CRC-32C of data."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The CRC-32C of data as TFRecord stores it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def records(content: bytes) -> Iterator[bytes]:
    """The data of each record of a file, its checksums compared."""
    position = 0
    while position < len(content):
        length, check = struct.unpack_from("<QI", content, position)
        assert check == masked(content[position : position + 8])
        start = position + 12
        data = content[start : start + length]
        (check,) = struct.unpack_from("<I", content, start + length)
        assert check == masked(data)
        yield data
        position = start + length + 4


def features(example: bytes) -> Features:
    """The features of a tf.train.Example, by name."""
    ((_, inner),) = _fields(example)
    found: Features = {}
    for number, entry in _fields(inner):
        assert number == 1
        name, feature = (value for _, value in _fields(entry))
        assert name.decode() not in found
        ((kind, values),) = _fields(feature)
        if kind == 1:
            found[name.decode()] = [value for _, value in _fields(values)]
            continue
        ((_, packed),) = _fields(values)
        if kind == 2:
            found[name.decode()] = [value for (value,) in struct.iter_unpack("<f", packed)]
        else:
            assert kind == 3
            found[name.decode()] = list(_varints(packed))
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field; all are length-delimited."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        assert tag & 7 == 2
        length, position = _varint(message, position)
        assert position + length <= len(message)
        yield tag >> 3, message[position : position + length]
        position += length


def _varints(packed: bytes) -> Iterator[int]:
    position = 0
    while position < len(packed):
        value, position = _varint(packed, position)
        yield value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while message[position] & 0x80:
        value |= (message[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | message[position] << shift, position + 1
