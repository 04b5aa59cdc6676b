"""Finds an image's EXIF orientation in the bytes of a JPEG or PNG, without decoding it.

Only tag 274 of the first directory is looked at (TIFF 6.0; Exif 2.32, section 4.6). Damage in the
metadata counts as no orientation: it says nothing about the pixels.
"""

import struct

UPRIGHT = 1

_ORIENTATION_TAG = 274
_SHORT_TYPE = 3
_EXIF = b"Exif\0\0"
# JPEG markers without a length: TEM, and RST0 to SOI.
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
_APP1 = 0xE1
# The start of a scan or the end of the image: metadata stands before.
_ENDS = frozenset((0xDA, 0xD9))


def of_jpeg(data: bytes) -> int:
    """The orientation of a JPEG, 1 to 8; 1 where none is stated."""
    position, last = 2, len(data) - 4
    # Every image passes here: no function is called for a segment that is passed over.
    while position <= last and data[position] == 0xFF:
        marker = data[position + 1]
        if marker in _ENDS:
            break
        if marker == 0xFF or marker in _BARE:  # 0xff may fill up before a marker
            position += 1 if marker == 0xFF else 2
            continue
        end = position + 2 + (data[position + 2] << 8 | data[position + 3])
        if marker == _APP1 and data.startswith(_EXIF, position + 4):
            return of_tiff(data[position + 4 + len(_EXIF) : end])
        position = end
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
