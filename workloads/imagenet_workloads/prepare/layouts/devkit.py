"""The files of labels and words that public data sets have beside their images.

Kaggle's ILSVRC has LOC_val_solution.csv above its splits, and its annotations as one file an image.
Tiny ImageNet has val_annotations.txt among its validation images. image-net.org has a development
kit, whose validation labels are numbers. Only its meta.mat maps these to classes: a MATLAB 5 file
with an array of structures `synsets`, whose fields `ILSVRC2012_ID`, `WNID` and `words` are read
(MAT-File Format, MathWorks, level 5).
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import join
from imagenet_workloads.prepare.stores.blob import LabelFile, content_of

META = "meta.mat"
# Where Kaggle's ILSVRC has its splits.
KAGGLE = ("ILSVRC", "Data", "CLS-LOC")
_BOXES = ("Annotations", "CLS-LOC")
# The labels of ILSVRC2012's development kit; their folder has its words.
_KIT_FILES = (
    "ILSVRC2012_validation_ground_truth.txt",
    "data/ILSVRC2012_validation_ground_truth.txt",
    "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
)
LABEL_FILES = ("LOC_val_solution.csv", *_KIT_FILES)
WORDS_FILES = ("LOC_synset_mapping.txt", "words.txt")
# Tiny ImageNet's, in its folder of validation images.
ANNOTATIONS = "val_annotations.txt"
LABEL_FILE_NAMES = frozenset(
    (
        *(name.rpartition("/")[2] for name in LABEL_FILES),
        *WORDS_FILES,
        ANNOTATIONS,
        META,
    )
)
UNLABELLED = (
    "its images are in no class folders, and their label file is missing; put "
    f"{LABEL_FILES[0]} or {_KIT_FILES[0]} above them, or write a label file by --validation-labels "
    "(validation.labels), and these images by --validation-source (validation.path)"
)

# Of a MATLAB 5 file.
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


def annotations_folder(training: str) -> str | None:
    """The folder with the annotations beside these training images; None if it is not Kaggle's."""
    *above, data, task, _ = ("", "", *training.split("/"))
    return "/".join((*above[2:], *_BOXES)) if (data, task) == KAGGLE[1:] else None


OpenFile = Callable[[str], LabelFile | None]
"""Opens a file of a source by its path; None if there is none."""


def words(file: OpenFile, folder: str) -> LabelFile | None:
    """The file of words above a folder: one of WORDS_FILES, else that of a development kit.

    The kit may be in the root too. Another file may have the name of the kit's, so the kit's labels
    must be beside it.
    """
    found = above(file, folder, WORDS_FILES)
    kits = (path for path in _paths_above(folder, _KIT_FILES) if file(path) is not None)
    if found is None and (kit := next(kits, None)) is not None:
        found = file(join(kit.rpartition("/")[0], META))
    return found


def is_of_kit(labels: LabelFile) -> bool:
    """Whether a label file is that of the development kit."""
    return str(labels).endswith(_KIT_FILES[0])


def kaggle_root(parts: Sequence[str]) -> int:
    """How many last parts of a path are folders of Kaggle's tree, such as 2 for ILSVRC/Data."""
    for count in range(len(KAGGLE), 0, -1):
        if tuple(parts[-count:]) == KAGGLE[:count]:
            return count
    return 0


def above(file: OpenFile, folder: str, names: Sequence[str]) -> LabelFile | None:
    """The file of one of these names in a folder above another, the nearest first."""
    return next(filter(None, map(file, _paths_above(folder, names))), None)


def _paths_above(folder: str, names: Sequence[str]) -> Iterator[str]:
    """These names in each folder above another, the nearest first."""
    parts = folder.split("/")[:-1]
    for count in range(len(parts), -1, -1):
        for name in names:
            yield join(*parts[:count], name)


_Element = tuple[int, memoryview]


def read_ids(path: Path | LabelFile) -> dict[int, str]:
    """The class name (WordNet ID) of each ILSVRC2012 ID."""
    pairs = _read(path, _ID, _NAME)
    try:
        return {int(float(number)): name for number, name in pairs}
    except (ValueError, ArithmeticError):
        raise _another(path) from None


def read_words(path: Path | LabelFile) -> dict[str, str]:
    """The words of each class (WordNet ID)."""
    return dict(_read(path, _NAME, _WORDS))


def _read(path: Path | LabelFile, *fields: str) -> list[tuple[str, str]]:
    content = content_of(path)
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
            content = zlib.decompressobj().decompress(data, _LARGEST + 1)
            if len(content) > _LARGEST:
                raise ValueError("a variable is too large")
            kind, data = next(_elements(memoryview(content), order))
        if kind == _MATRIX:
            parts = _elements(data, order)
            array_class, count, name = _head(parts, order)
            if name == _VARIABLE and array_class == _STRUCTURE:
                return _read_synsets(parts, count, order, wanted)
    raise LookupError(_VARIABLE)


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
