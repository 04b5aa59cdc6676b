"""The metadata of a JPEG, PNG or WebP that `transcode` needs, read without decoding the image.

Orientation: only tag 274 of the first EXIF directory is read (TIFF 6.0; Exif 2.32, section 4.6). A
damaged EXIF block counts as no orientation. OpenCV rotates TIFFs itself. Each chunk of a PNG has a
checksum, which OpenCV ignores, and a complete PNG ends with IEND (PNG specification, third edition,
section 5). Chunks of a WebP have no checksum (RFC 9649).
"""

import struct
import zlib

UPRIGHT = 1
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

_ORIENTATION_TAG = 274
# TIFF's SHORT, which the standard requires, and LONG, which some programs write.
_TYPES = {3: "H", 4: "I"}
_EXIF = b"Exif\0\0"
# JPEG markers without a length: TEM, and RST0 to SOI.
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
_APP1 = 0xE1
# The start of a scan or the end of the image: the metadata precedes both.
_ENDS = frozenset((0xDA, 0xD9))


def jpeg_orientation(data: bytes) -> int:
    """Return the orientation of a JPEG, 1 to 8; 1 by default."""
    position, last = 2, len(data) - 4
    # Hot path: no function is called for a skipped segment.
    while position <= last:
        if data[position] != 0xFF:
            # `jpeg_warnings` drops the bytes before the marker.
            position = data.find(b"\xff", position)
            if not 0 <= position <= last:
                break
        marker = data[position + 1]
        if marker in _ENDS:
            break
        if marker == 0xFF or marker in _BARE:  # 0xff may fill up before a marker
            position += 1 if marker == 0xFF else 2
            continue
        end = position + 2 + (data[position + 2] << 8 | data[position + 3])
        if marker == _APP1 and data.startswith(_EXIF, position + 4):
            return tiff_orientation(data[position + 4 + len(_EXIF) : end])
        position = end
    return UPRIGHT


def tiff_orientation(block: bytes) -> int:
    """Return the orientation in a TIFF block, the content of EXIF."""
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return UPRIGHT
    try:
        (first,) = struct.unpack_from(order + "4xI", block)
        (entries,) = struct.unpack_from(order + "H", block, first)
        for position in range(first + 2, first + 2 + 12 * entries, 12):
            tag, kind, count = struct.unpack_from(order + "HHI", block, position)
            if tag == _ORIENTATION_TAG:
                if kind not in _TYPES or count != 1:
                    return UPRIGHT
                (value,) = struct.unpack_from(order + _TYPES[kind], block, position + 8)
                return int(value) if 1 <= value <= 8 else UPRIGHT
    except struct.error:
        pass
    return UPRIGHT


def orientation(data: bytes) -> int:
    """Return the orientation of an image of any format, 1 to 8; 1 by default.

    Raises:
        ValueError: It is a damaged PNG.
    """
    if data.startswith(b"\xff\xd8\xff"):
        return jpeg_orientation(data)
    block = None
    if data.startswith(PNG_SIGNATURE):
        block = png_exif_block(data)
    elif data.startswith(b"RIFF") and data[8:16] == b"WEBPVP8X":
        block = _webp_exif_block(data)
    return tiff_orientation(block) if block else UPRIGHT


def _webp_exif_block(data: bytes) -> bytes | None:
    """Return the TIFF block of the EXIF chunk of an extended WebP; None without one."""
    position = 12
    while position + 8 <= len(data):
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        if data[position : position + 4] == b"EXIF":
            # Some programs put JPEG's mark before it.
            return data[position + 8 : position + 8 + length].removeprefix(_EXIF)
        position += 8 + length + length % 2
    return None


def png_exif_block(data: bytes) -> bytes | None:
    """Return the TIFF block of the eXIf chunk of a complete PNG; None without one.

    Raises:
        ValueError: The PNG is truncated, or a chunk is damaged.
    """
    block, position = None, len(PNG_SIGNATURE)
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        end = position + 8 + length
        if end + 4 > len(data):
            raise ValueError("the PNG is truncated")
        kind = data[position + 4 : position + 8]
        if zlib.crc32(data[position + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError("a chunk of the PNG has a wrong checksum")
        if kind == b"eXIf":
            block = data[position + 8 : end]
        if kind == b"IEND":
            return block
        position = end + 4
