"""Reads ILSVRC2012's own numbering of the classes from the development kit's meta.mat.

Its validation labels are these numbers, and only this file says which class each is: a MATLAB 5
file with an array of structures `synsets`, of whose fields `ILSVRC2012_ID` and `WNID` are read
(MAT-File Format, MathWorks, level 5).
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError

FILE_NAME = "meta.mat"

_HEADER = 128
# The development kit's takes less than a hundredth of this, decompressed.
_LARGEST = 1 << 28
_VARIABLE = "synsets"
_ID, _NAME = "ILSVRC2012_ID", "WNID"

# Types of data elements, and struct's codes for those that hold numbers.
_MATRIX, _COMPRESSED = 14, 15
_CODES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
_TEXTS = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
# Classes of arrays.
_STRUCTURE, _CHARACTERS = 2, 4

_Element = tuple[int, memoryview]


def read_ids(path: Path) -> dict[int, str]:
    """The class name (WordNet ID) of each ILSVRC2012 ID.

    Raises:
        InputError: the file cannot be read, or is not as the development kit's.
    """
    try:
        content = regular_files.read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return _read(content)
    except (
        ValueError,
        LookupError,
        ArithmeticError,
        TypeError,
        struct.error,
        zlib.error,
        StopIteration,
    ):
        raise InputError(
            f"{path}: is not the meta.mat of ILSVRC2012's development kit; "
            "give that one, or write class names into the label file"
        ) from None


def _read(content: bytes) -> dict[int, str]:
    order = {b"IM": "<", b"MI": ">"}[content[126:128]]
    for kind, data in _elements(memoryview(content)[_HEADER:], order):
        if kind == _COMPRESSED:
            kind, data = next(_elements(memoryview(_decompressed(data)), order))
        if kind == _MATRIX:
            parts = _elements(data, order)
            array_class, count, name = _head(parts, order)
            if name == _VARIABLE and array_class == _STRUCTURE:
                return _read_synsets(parts, count, order)
    raise LookupError(_VARIABLE)


def _decompressed(data: memoryview) -> bytes:
    content = zlib.decompressobj().decompress(data, _LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError("a variable is too large")
    return content


def _read_synsets(parts: Iterator[_Element], count: int, order: str) -> dict[int, str]:
    (width,) = struct.unpack_from(order + "i", next(parts)[1])
    text = bytes(next(parts)[1])
    fields = [
        text[start : start + width].partition(b"\0")[0].decode("ascii")
        for start in range(0, len(text), width)
    ]
    ids: dict[int, str] = {}
    for _ in range(count):
        values = {field: next(parts)[1] for field in fields}
        ids[int(float(_value(values[_ID], order)))] = _value(values[_NAME], order)
    return ids


def _value(data: memoryview, order: str) -> str:
    """What an array with one number, or a row of characters, holds, as text."""
    parts = _elements(data, order)
    array_class, _, _ = _head(parts, order)
    kind, content = next(parts)
    if kind in _TEXTS:
        return bytes(content).decode(_TEXTS[kind])
    code = _CODES[kind]
    values = struct.unpack_from(f"{order}{len(content) // struct.calcsize(code)}{code}", content)
    return "".join(map(chr, values)) if array_class == _CHARACTERS else str(values[0])


def _head(parts: Iterator[_Element], order: str) -> tuple[int, int, str]:
    """The class, number of elements and name of an array, from its first three parts."""
    (flags,) = struct.unpack_from(order + "I", next(parts)[1])
    sizes = next(parts)[1]
    count = 1
    for size in struct.unpack(f"{order}{len(sizes) // 4}i", sizes):
        count *= size
    return flags & 0xFF, count, bytes(next(parts)[1]).decode("ascii")


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    position = 0
    while position + 8 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, position)
        if kind >> 16:  # a small element: at most 4 bytes, kept in the tag
            size, kind = kind >> 16, kind & 0xFFFF
            yield kind, data[position + 4 : position + 4 + size]
            position += 8
            continue
        start = position + 8
        if start + size > len(data):
            raise ValueError("an element is cut off")
        yield kind, data[start : start + size]
        # Compressed elements are the only ones without padding.
        position = start + size + (0 if kind == _COMPRESSED else -size % 8)
