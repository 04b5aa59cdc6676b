"""Reads ILSVRC2012's numbers and words of the classes from meta.mat of the development kit.

The validation labels are these numbers, and only this file maps them to classes. It is a MATLAB 5
file with an array of structures `synsets`, whose fields `ILSVRC2012_ID`, `WNID` and `words` are
read (MAT-File Format, MathWorks, level 5).
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.stores import blob
from imagenet_workloads.prepare.stores.blob import LabelFile

FILE_NAME = "meta.mat"

_HEADER = 128
# The development kit's file takes less than a hundredth of this, decompressed.
_LARGEST = 1 << 28
_VARIABLE = "synsets"
_ID, _NAME, _WORDS = "ILSVRC2012_ID", "WNID", "words"

# Types of data elements, with struct's codes for numbers.
_MATRIX, _COMPRESSED = 14, 15
_CODES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
_TEXTS = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
# Classes of arrays.
_STRUCTURE, _CHARACTERS = 2, 4

_Element = tuple[int, memoryview]


def read_ids(path: Path | LabelFile) -> dict[int, str]:
    """The class name (WordNet ID) of each ILSVRC2012 ID.

    Raises:
        InputError: the file cannot be read, or is not that of the development kit.
    """
    pairs = _read(path, _ID, _NAME)
    try:
        return {int(float(number)): name for number, name in pairs}
    except (ValueError, ArithmeticError):
        raise _another(path) from None


def read_words(path: Path | LabelFile) -> dict[str, str]:
    """The words of each class (WordNet ID).

    Raises:
        InputError: the file cannot be read, or is not that of the development kit.
    """
    return dict(_read(path, _NAME, _WORDS))


def _read(path: Path | LabelFile, *fields: str) -> list[tuple[str, str]]:
    content = blob.content_of(path)
    try:
        return _read_variable(content, fields)
    except (
        ValueError,
        LookupError,
        ArithmeticError,
        TypeError,
        struct.error,
        zlib.error,
        StopIteration,
    ):
        raise _another(path) from None


def _another(path: Path | LabelFile) -> InputError:
    return InputError(
        f"{path}: is not the meta.mat of ILSVRC2012's development kit; "
        "give that one, or write class names into the label file"
    )


def _read_variable(content: bytes, wanted: tuple[str, ...]) -> list[tuple[str, str]]:
    order = {b"IM": "<", b"MI": ">"}[content[126:128]]
    for kind, data in _elements(memoryview(content)[_HEADER:], order):
        if kind == _COMPRESSED:
            kind, data = next(_elements(memoryview(_decompressed(data)), order))
        if kind == _MATRIX:
            parts = _elements(data, order)
            array_class, count, name = _head(parts, order)
            if name == _VARIABLE and array_class == _STRUCTURE:
                return _read_synsets(parts, count, order, wanted)
    raise LookupError(_VARIABLE)


def _decompressed(data: memoryview) -> bytes:
    content = zlib.decompressobj().decompress(data, _LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError("a variable is too large")
    return content


def _read_synsets(
    parts: Iterator[_Element], count: int, order: str, wanted: tuple[str, ...]
) -> list[tuple[str, str]]:
    (width,) = struct.unpack_from(order + "i", next(parts)[1])
    text = bytes(next(parts)[1])
    fields = [
        text[start : start + width].partition(b"\0")[0].decode("ascii")
        for start in range(0, len(text), width)
    ]
    pairs: list[tuple[str, str]] = []
    for _ in range(count):
        values = {field: next(parts)[1] for field in fields}
        first, second = (_value(values[field], order) for field in wanted)
        pairs.append((first, second))
    return pairs


def _value(data: memoryview, order: str) -> str:
    """The text of an array with one number or a row of characters."""
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
