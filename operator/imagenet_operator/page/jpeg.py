"""Thumbnails of a job's volume: only their picture enters the page.

The training program encodes thumbnails from pixels. Whoever can write to the volume could put other
files in their place, so the segments of each file are checked (ITU-T T.81, annex B), and those that
may hold metadata, such as a place or a comment, are left out.
"""

BYTES_MAXIMUM = 64 << 10
"""Of a thumbnail."""

_EDGE_MAXIMUM = 1024
_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_FRAMES = (0xC0, 0xC1, 0xC2)
"""Baseline, extended and progressive, each with Huffman codes."""
_TABLES = (0xC4, 0xDB, 0xDD)
"""Huffman codes, quantization and the restart interval."""
_METADATA = (*range(0xE0, 0xF0), 0xFE)
"""The segments of applications, such as EXIF, and comments."""
_IN_SCAN = (0x00, *range(0xD0, 0xD8))
"""What follows 0xFF within a scan: a byte 0xFF of data, and restart markers."""


def without_metadata(content: bytes) -> bytes:
    """Return a JPEG file with the segments alone that its picture needs.

    Raises:
        ValueError: It is too large, no JPEG file, or has a segment that no thumbnail has.
    """
    if len(content) > BYTES_MAXIMUM:
        raise ValueError(f"has more than {BYTES_MAXIMUM:,} bytes")
    if content[:2] != bytes((0xFF, _START)):
        raise ValueError("is not a JPEG file")
    kept, position, has_frame, has_scan = [content[:2]], 2, False, False
    while True:
        marker = content[position : position + 2]
        if len(marker) < 2 or marker[0] != 0xFF:
            raise ValueError("is not a complete JPEG file")
        code = marker[1]
        if code == _END:
            break
        length = int.from_bytes(content[position + 2 : position + 4], "big")
        end = position + 2 + length
        if length < 2 or end > len(content):
            raise ValueError("is not a complete JPEG file")
        if code in _FRAMES and not has_frame:
            _check_frame(content[position + 4 : end])
            has_frame = True
        elif code == _SCAN and has_frame:
            end = _end_of_scan(content, end)
            has_scan = True
        elif code not in (*_TABLES, *_METADATA):
            raise ValueError(f"has the segment {code:02X}, which no thumbnail has")
        if code not in _METADATA:
            kept.append(content[position:end])
        position = end
    if not has_scan:
        raise ValueError("has no picture")
    return b"".join((*kept, marker))


def _check_frame(frame: bytes) -> None:
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    if not (0 < height <= _EDGE_MAXIMUM and 0 < width <= _EDGE_MAXIMUM):
        raise ValueError(f"has {width}x{height} pixels; at most {_EDGE_MAXIMUM} an edge are shown")
    # Four would be CMYK, whose meaning depends on a segment of metadata.
    if frame[5:6] not in (b"\1", b"\3"):
        raise ValueError("is neither grey nor coloured")


def _end_of_scan(content: bytes, position: int) -> int:
    while (position := content.find(0xFF, position)) >= 0:
        if content[position + 1 : position + 2] and content[position + 1] not in _IN_SCAN:
            return position
        position += 2
    raise ValueError("is not a complete JPEG file")
