"""RecordIO: writes, checks and reads MXNet's .rec files, and writes their indexes, without MXNet.

A record is `magic u32 | (cflag << 29 | length) u32 | data | zeros to a multiple of 4`, all little
endian (dmlc-core, include/dmlc/recordio.h). Readers find the start of a record by the magic number.
So a record whose data contains it at a multiple of 4 is split there: the number is dropped, and
cflag marks the pieces (0 whole, 1 first, 2 middle, 3 last), so that a reader restores it. An
image's data is an IRHeader (flag u32, label f32, id u64, id2 u64), more labels if its flag counts
some, and the JPEG.
"""

import struct
from collections.abc import Iterator
from functools import partial
from io import RawIOBase

from imagenet_workloads.dataset import RECORD_IO
from imagenet_workloads.records.format import (
    INDEX_LINE,
    Chunks,
    Format,
    LabelledImage,
    Read,
    ShardWriter,
    StoredImage,
    Stream,
)

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_HEAD = struct.Struct("<II")
_IMAGE_HEADER = struct.Struct("<IfQQ")
# The length has 29 bits.
LARGEST_RECORD = (1 << 29) - 1

WHOLE, FIRST, MIDDLE, LAST = range(4)


def encode_image(image: StoredImage) -> Chunks:
    """Return the chunks of an image's record; ValueError if it is too large for one."""
    return encode(_IMAGE_HEADER.pack(0, image.label, image.key, 0), image.jpeg)


def encode(header: bytes, image: bytes) -> list[bytes]:
    """Return the chunks of one record; the length of `header` is a multiple of 4.

    ValueError if the data is too long for a record.
    """
    length = len(header) + len(image)
    if length > LARGEST_RECORD:
        raise ValueError(f"a record of {length} bytes; at most {LARGEST_RECORD} fit")
    if _MAGIC_BYTES in header or _MAGIC_BYTES in image:
        chunks, start, flag_of_last = [], 0, WHOLE
        data = header + image
        position = data.find(_MAGIC_BYTES)
        while position != -1:
            if position % 4 == 0:
                flag = FIRST if flag_of_last == WHOLE else MIDDLE
                chunks.append(_HEAD.pack(MAGIC, flag << 29 | (position - start)))
                chunks.append(data[start:position])
                start, flag_of_last = position + len(_MAGIC_BYTES), LAST
                position += 3
            position = data.find(_MAGIC_BYTES, position + 1)
        rest = data[start:]
        head = _HEAD.pack(MAGIC, flag_of_last << 29 | len(rest))
        return [*chunks, head, rest, bytes(-len(rest) % 4)]
    # The case of nearly every record; its image is not copied.
    return [_HEAD.pack(MAGIC, WHOLE << 29 | length) + header, image, bytes(-length % 4)]


def count_records(blocks: Iterator[bytes]) -> int:
    """Count the records in the blocks of a .rec file.

    ValueError if the bytes are not RecordIO, or end inside a record.
    """
    stream = Stream(blocks)
    records, open_record = 0, False
    while open_record or not stream.at_end():
        flag, length = _piece(stream.read(_HEAD.size))
        if (flag in (MIDDLE, LAST)) != open_record:
            raise ValueError("the pieces of a split record are out of order")
        open_record = flag in (FIRST, MIDDLE)
        records += flag in (WHOLE, LAST)
        stream.skip(length + -length % 4)
    return records


def is_record_io(file: RawIOBase) -> bool:
    """Whether a file begins like RecordIO."""
    return file.read(len(_MAGIC_BYTES)) == _MAGIC_BYTES


def offsets(file: RawIOBase) -> Iterator[int]:
    """Walk over the headers and yield where each record begins."""
    offset = file.seek(0)
    while header := file.read(_HEAD.size):
        try:
            flag, length = _piece(header)
        except ValueError as error:
            raise ValueError(f"no record at byte {offset}: {error}") from None
        if flag in (WHOLE, FIRST):
            yield offset
        offset = file.seek(length + -length % 4, 1)


def parse(record: bytes) -> LabelledImage:
    """Return the image of a record."""
    pieces, offset, flag = [], 0, -1
    while offset < len(record) and flag not in (WHOLE, LAST):
        flag, length = _piece(record[offset : offset + _HEAD.size])
        offset += _HEAD.size
        pieces.append(record[offset : offset + length])
        if len(pieces[-1]) != length:
            raise ValueError("it is cut off")
        offset += length + -length % 4
    data = _MAGIC_BYTES.join(pieces)
    if flag not in (WHOLE, LAST) or len(data) < _IMAGE_HEADER.size:
        raise ValueError("it is no image")
    labels, label, identity, _ = _IMAGE_HEADER.unpack_from(data)
    if labels:
        (label,) = struct.unpack_from("<f", data, _IMAGE_HEADER.size)
    return LabelledImage(data[_IMAGE_HEADER.size + 4 * labels :], _whole(label), identity)


def read_identity(read: Read, size: int) -> int:
    """Return the identity of a record, as `parse` does, without reading its image."""
    head = read(0, min(size, _HEAD.size + _IMAGE_HEADER.size))
    _, length = _piece(head[: _HEAD.size])
    if length < _IMAGE_HEADER.size:
        # Its header holds the magic number, so that it is in pieces.
        return parse(read(0, size)).identity
    identity: int = _IMAGE_HEADER.unpack_from(head, _HEAD.size)[2]
    return identity


def read_label(read: Read, size: int) -> int:
    """Return the label of a record, as `parse` does, without reading its image."""
    head = read(0, min(size, _HEAD.size + _IMAGE_HEADER.size))
    _, length = _piece(head[: _HEAD.size])
    if length >= _IMAGE_HEADER.size:
        labels, label, _, _ = _IMAGE_HEADER.unpack_from(head, _HEAD.size)
        if not labels:
            return _whole(label)
    return parse(read(0, size)).label


def _piece(header: bytes) -> tuple[int, int]:
    """The flag and the length of a piece of a record."""
    if len(header) != _HEAD.size or header[: len(_MAGIC_BYTES)] != _MAGIC_BYTES:
        raise ValueError("a record does not begin with the magic number")
    _, flag_and_length = _HEAD.unpack(header)
    return flag_and_length >> 29, flag_and_length & LARGEST_RECORD


def _whole(label: float) -> int:
    """A label, which a record has as a floating-point number."""
    if not label.is_integer():
        raise ValueError(f"its label is {label}, and no whole number")
    return int(label)


FORMAT = Format(
    name=RECORD_IO,
    suffix="rec",
    requires_index=True,
    overhead=_HEAD.size + _IMAGE_HEADER.size + 3 + INDEX_LINE,
    writer=partial(ShardWriter, encode_image),
    count_records=count_records,
    offsets=offsets,
    parse=parse,
    read_identity=read_identity,
    read_label=read_label,
)
