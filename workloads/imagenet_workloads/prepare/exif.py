"""Finds an image's EXIF orientation in the bytes of a JPEG or PNG, without decoding it.

Only tag 274 of the first directory is looked at (TIFF 6.0; Exif 2.32, section 4.6). Damage in the
metadata counts as no orientation: it says nothing about the pixels.
"""

import struct
from collections.abc import Iterator

UPRIGHT = 1

_ORIENTATION_TAG = 274
_SHORT_TYPE = 3
_EXIF = b"Exif\0\0"
# JPEG markers without a length: TEM, and RST0 to SOI.
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
_SCAN, _END, _APP1 = 0xDA, 0xD9, 0xE1


def of_jpeg(data: bytes) -> int:
    """The orientation of a JPEG, 1 to 8; 1 where none is stated."""
    for marker, start, end in _segments(data):
        if marker == _APP1 and data.startswith(_EXIF, start):
            return of_tiff(data[start + len(_EXIF) : end])
    return UPRIGHT


def of_tiff(block: bytes) -> int:
    """The orientation that a TIFF block, the content of EXIF, states."""
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return UPRIGHT
    try:
        (first,) = struct.unpack_from(order + "4xI", block)
        (entries,) = struct.unpack_from(order + "H", block, first)
        for position in range(first + 2, first + 2 + 12 * entries, 12):
            tag, kind, count, value = struct.unpack_from(order + "HHIH", block, position)
            if tag == _ORIENTATION_TAG:
                valid = kind == _SHORT_TYPE and count == 1 and 1 <= value <= 8
                return int(value) if valid else UPRIGHT
    except struct.error:
        pass
    return UPRIGHT


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields marker, start and end of each segment of a JPEG before its first scan."""
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker in (_SCAN, _END):
            return
        if marker == 0xFF or marker in _BARE:  # 0xff may fill up before a marker
            position += 1 if marker == 0xFF else 2
            continue
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        yield marker, position + 4, end
        position = end
