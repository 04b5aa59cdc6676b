"""Checks a PNG chunk by chunk and finds its EXIF block, without decoding it.

OpenCV says nothing when a PNG's checksums are wrong; each chunk has one, and a whole PNG ends in
IEND (PNG specification, third edition, section 5).
"""

import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def exif_block(data: bytes) -> bytes | None:
    """The TIFF block of the eXIf chunk of a whole PNG; None without one.

    Raises:
        ValueError: the PNG is cut off, or a chunk of it is damaged.
    """
    block, position = None, len(SIGNATURE)
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        end = position + 8 + length
        if end + 4 > len(data):
            raise ValueError("the PNG is cut off")
        kind = data[position + 4 : position + 8]
        if zlib.crc32(data[position + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError("a chunk of the PNG has a wrong checksum")
        if kind == b"eXIf":
            block = data[position + 8 : end]
        if kind == b"IEND":
            return block
        position = end + 4
