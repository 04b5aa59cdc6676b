"""What `transcode` needs of an image before it is decoded: its orientation, and the size it claims.

Orientation: only tag 274 of the first EXIF directory is read (TIFF 6.0; Exif 2.32, section 4.6). A
damaged EXIF block counts as no orientation. OpenCV rotates TIFFs itself. Each chunk of a PNG has a
checksum, which OpenCV ignores, and a complete PNG ends with IEND (PNG specification, third edition,
section 5). Chunks of a WebP have no checksum (RFC 9649).

Size: a few bytes can claim gigabytes. One function reads it for each format that OpenCV reads.
Other formats are rejected: no decoder sees an image of unknown size.
"""

import re
import struct
import zlib
from collections.abc import Callable

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
    """The orientation of a JPEG, 1 to 8; 1 by default."""
    position, last = 2, len(data) - 4
    # Hot path: no function is called for a skipped segment.
    while position <= last:
        if data[position] != 0xFF:
            # `transcode` drops the bytes before the marker.
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
    """The orientation in a TIFF block, the content of EXIF."""
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
    """The orientation of an image of any format, 1 to 8; 1 by default.

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
    """The TIFF block of the EXIF chunk of an extended WebP; None without one."""
    position = 12
    while position + 8 <= len(data):
        length = int.from_bytes(data[position + 4 : position + 8], "little")
        if data[position : position + 4] == b"EXIF":
            # Some programs put JPEG's mark before it.
            return data[position + 8 : position + 8 + length].removeprefix(_EXIF)
        position += 8 + length + length % 2
    return None


def png_exif_block(data: bytes) -> bytes | None:
    """The TIFF block of the eXIf chunk of a complete PNG; None without one.

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


Size = tuple[int, int]

_WIDTH, _HEIGHT = 256, 257
_TILE_WIDTH, _TILE_HEIGHT = 322, 323
# TIFF's integer types: BYTE, SHORT, LONG, LONG8.
_NUMBERS = {1: "B", 3: "H", 4: "I", 16: "Q"}
# JPEG markers that start a frame.
_FRAMES = frozenset(
    (*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0))
)
_JP2 = b"\0\0\0\x0cjP  \r\n\x87\n"
_CODESTREAM = b"\xff\x4f\xff\x51"
_TOKEN = rb"(?:[\s\0]|#[^\n]*\n)+(\d{1,9})"
_PIXMAP = re.compile(rb"P[1-6Ff]" + _TOKEN + _TOKEN)
_ARBITRARY_MAP = re.compile(rb"^(WIDTH|HEIGHT)[ \t]+(\d{1,9})[ \t\r]*$", re.MULTILINE)
_RADIANCE = re.compile(rb"\n\r?\n[-+]Y (\d{1,9}) [-+]X (\d{1,9})")
# The longest text header.
_LONGEST_TEXT = 1 << 16


def claimed_size(data: bytes) -> Size | None:
    """Height and width in pixels; None for an unknown format.

    A tile that is larger than its image counts instead, because decoders allocate it.
    """
    for signature, read in _READERS.items():
        if data.startswith(signature):
            try:
                return read(data)
            except (struct.error, ValueError, OverflowError):  # an offset beyond any file
                return None
    return None


def _jpeg(data: bytes) -> Size | None:
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return height, width
        if marker == 0xFF:  # fills up before a marker
            position += 1
        elif marker in _BARE:
            position += 2
        else:
            position += 2 + (data[position + 2] << 8 | data[position + 3])
    return None


def _png(data: bytes) -> Size:
    width, height = struct.unpack_from(">II", data, 16)
    return height, width


def _bmp(data: bytes) -> Size:
    (length,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if length == 12 else "<ii", data, 18)
    # A negative height counts its rows from the top.
    return abs(height), abs(width)


def _webp(data: bytes) -> Size | None:
    if data[8:12] != b"WEBP":
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = data[24:27], data[27:30]
        return int.from_bytes(height, "little") + 1, int.from_bytes(width, "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return height & 0x3FFF, width & 0x3FFF


def _tiff(data: bytes) -> Size | None:
    order = "<" if data[:2] == b"II" else ">"
    is_big = data[2:4] in (b"+\0", b"\0+")
    first, count, entry = ("8xQ", "Q", "HHQ") if is_big else ("4xI", "H", "HHI")
    (position,) = struct.unpack_from(order + first, data)
    (entries,) = struct.unpack_from(order + count, data, position)
    position += struct.calcsize(order + count)
    step, head = (20, 12) if is_big else (12, 8)
    found: dict[int, int] = {}
    for start in range(position, min(position + entries * step, len(data)), step):
        tag, kind, _ = struct.unpack_from(order + entry, data, start)
        if tag in (_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT) and kind in _NUMBERS:
            (found[tag],) = struct.unpack_from(order + _NUMBERS[kind], data, start + head)
    if not {_WIDTH, _HEIGHT} <= found.keys():
        return None
    return (
        max(found[_HEIGHT], found.get(_TILE_HEIGHT, 0)),
        max(found[_WIDTH], found.get(_TILE_WIDTH, 0)),
    )


def _pixmap(data: bytes) -> Size | None:
    match = _PIXMAP.match(data[:_LONGEST_TEXT])
    return None if match is None else (int(match[2]), int(match[1]))


def _arbitrary_map(data: bytes) -> Size | None:
    header, end, _ = data[:_LONGEST_TEXT].partition(b"ENDHDR")
    found = dict(_ARBITRARY_MAP.findall(header))
    if not end or len(found) < 2:
        return None
    return int(found[b"HEIGHT"]), int(found[b"WIDTH"])


def _sun_raster(data: bytes) -> Size:
    width, height = struct.unpack_from(">II", data, 4)
    return height, width


def _radiance(data: bytes) -> Size | None:
    match = _RADIANCE.search(data[:_LONGEST_TEXT])
    return None if match is None else (int(match[1]), int(match[2]))


def _jp2(data: bytes) -> Size | None:
    position = 0
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        head = 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, position + 8)
            head = 16
        if kind == b"jp2c":
            return _codestream(data, position + head)
        if length < head:  # 0 is the last box
            return None
        position += length
    return None


def _codestream(data: bytes, start: int = 0) -> Size | None:
    if data[start : start + 4] != _CODESTREAM:
        return None
    right, bottom, left, top = struct.unpack_from(">IIII", data, start + 8)
    return max(0, bottom - top), max(0, right - left)


_READERS: dict[bytes, Callable[[bytes], Size | None]] = {
    b"\xff\xd8\xff": _jpeg,
    PNG_SIGNATURE: _png,
    b"RIFF": _webp,
    b"BM": _bmp,
    b"II*\0": _tiff,
    b"MM\0*": _tiff,
    b"II+\0": _tiff,
    b"MM\0+": _tiff,
    b"P7": _arbitrary_map,
    **{b"P%c" % letter: _pixmap for letter in b"123456Ff"},
    b"\x59\xa6\x6a\x95": _sun_raster,
    b"#?RADIANCE": _radiance,
    b"#?RGBE": _radiance,
    _JP2: _jp2,
    _CODESTREAM: _codestream,
}
