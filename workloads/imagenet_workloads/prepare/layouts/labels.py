"""Reads the label file of a flat source: the class of each image.

A line is `NAME CLASS` (or `NAME,CLASS`; more columns are ignored, a heading `ImageId,…` too), as in
Caffe's val.txt and Kaggle's LOC_val_solution.csv. Or it is `CLASS` alone for the n-th image by
name, as in ILSVRC2012_validation_ground_truth.txt. NAME may lack its suffix.

A table with a heading, such as filename,width,height,class, is read by its columns. Its cells may
be quoted, and separated by commas, semicolons or tabs.

CLASS is a class's name or a number. Beside a NAME, the number is the position among the sorted
names of all classes, from 0. Alone, it is an ID of ILSVRC2012, which meta.mat of the development
kit, in the same folder, maps to a class. A class's name may hold spaces and commas: the longest
name at the start of a line's rest counts. The file is UTF-8, or starts with a byte order mark.
"""

import csv
import hashlib
import io
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts import devkit, tables
from imagenet_workloads.prepare.stores.blob import (
    LabelFile,
    as_label_file,
    content_of,
    read_once,
    readable,
)

UNKNOWN = -1

_SEPARATORS = ", \t\r\n\v\f"
_COLUMN = re.compile(r"[^\s,]+")
_DIGITS = 18

Labels = npt.NDArray[np.int32]


def read(
    path: Path | LabelFile,
    names: Callable[[], Iterator[str]],
    class_names: Sequence[str],
    unknown: Counter[str] | None = None,
) -> Labels:
    """The class of each image, as a position in `class_names`; UNKNOWN for a class not in it.

    Args:
        path: the label file.
        names: the images' names in the order of the result; may be iterated twice.
        class_names: all classes of the training source, the dropped ones too, in any order.
        unknown: receives the number of images of each class that is not in it.

    Raises:
        InputError: the file cannot be read, a line is wrong, or an image has no line.
    """
    # Read once: a file of a server would take a request each time.
    path = read_once(as_label_file(path))
    if next(lines(path), None) is None:
        raise InputError(f"{path}: holds no labels")
    classes = _ClassNames(class_names)
    cells = _cells(path, names)
    if cells is None and _is_by_order(path, classes):
        labels = _by_order(path, names, classes)
    else:
        labels = _by_name(path, names, classes, cells)
    if unknown is not None:
        numbers, counts = np.unique(-labels[labels < 0], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            unknown[classes.unknown[number - 1]] += count
    return np.maximum(labels, UNKNOWN)


def fingerprint(path: Path | LabelFile) -> str:
    """Hex SHA-256 of a label file, and of the meta.mat beside it if there is one."""
    digest = hashlib.sha256(content_of(path))
    translation = as_label_file(path).beside(devkit.META)
    if translation is not None:
        digest.update(b"\0" + content_of(translation))
    return digest.hexdigest()


class _ClassNames:
    def __init__(self, class_names: Sequence[str]) -> None:
        self._position = {name: number for number, name in enumerate(class_names)}
        self._by_rank = sorted(class_names)
        self._words = max((len(_COLUMN.findall(name)) for name in class_names), default=1)
        self._numbers: dict[str, int] = {}
        # Classes of lines that the training images lack; the n-th has the number -n.
        self.unknown: list[str] = []

    @property
    def have_spaces(self) -> bool:
        return self._words > 1

    def __contains__(self, name: str) -> bool:
        return name in self._position

    def named(self, text: str) -> str:
        """The longest class at the start of a line's rest, else the first column."""
        if text.startswith('"') and text[1:].partition('"')[0] in self._position:
            return text[1:].partition('"')[0]
        if self.have_spaces:
            ends = [column.end() for column in islice(_COLUMN.finditer(text), self._words)]
            for end in reversed(ends):
                if text[:end] in self._position:
                    return text[:end]
        first: str = _COLUMN.findall(text)[0]
        return first

    def number(self, name: str) -> int:
        if name in self._position:
            return self._position[name]
        if name not in self._numbers:
            self.unknown.append(name)
            self._numbers[name] = -len(self.unknown)
        return self._numbers[name]

    def at_rank(self, text: str, path: Path | LabelFile, line: int) -> int:
        """The position of the class with this rank, in digits."""
        # No file has so many classes, and int() limits the number of digits.
        if len(text) > _DIGITS or int(text) >= len(self._by_rank):
            raise InputError(
                f"{path}: line {line}: there is no class {text[:_DIGITS]}: the source has "
                f"{len(self._by_rank)}, counted from 0"
            )
        return self._position[self._by_rank[int(text)]]


def _is_by_order(path: Path | LabelFile, classes: _ClassNames) -> bool:
    """Whether each line is a class alone."""
    texts = (text for _, text in lines(path))
    first = next(texts)
    if len(_COLUMN.findall(first)) == 1 or _unquoted(first) in classes:
        return True
    return classes.have_spaces and any(_unquoted(text) in classes for text in texts)


def _by_order(
    path: Path | LabelFile, names: Callable[[], Iterator[str]], classes: _ClassNames
) -> Labels:
    listed = array("i")
    translate = _translation(path, classes)
    for number, text in lines(path):
        name = _unquoted(text)
        if len(_COLUMN.findall(name)) > 1 and name not in classes and not classes.have_spaces:
            raise InputError(f"{path}: line {number} has two columns, and the first has one")
        listed.append(translate(name, number))
    # The positions of the images, sorted by the last part of their names.
    bases = [_base(name) for name in names()]
    order = np.array(sorted(range(len(bases)), key=bases.__getitem__), np.int64)
    if len(order) != len(listed):
        raise InputError(
            f"{path}: has {len(listed)} labels for {len(order)} images; "
            "it must have a line for each image, in the order of their names"
        )
    labels = np.empty(len(order), np.int32)
    labels[order] = np.frombuffer(listed, np.int32)
    return labels


def _translation(path: Path | LabelFile, classes: _ClassNames) -> Callable[[str, int], int]:
    """How a line with one column names a class."""
    ids: dict[str, str] | None = None

    def translate(text: str, line: int) -> int:
        nonlocal ids
        if text in classes or not _is_number(text):
            return classes.number(text)
        if ids is None:
            translation = as_label_file(path).beside(devkit.META)
            if translation is None:
                raise InputError(
                    f"{path}: line {line}: {text} is no class's name; if it is an ID of "
                    f"ILSVRC2012, put the development kit's {devkit.META} beside the file; else "
                    "write class names"
                )
            ids = {str(number): name for number, name in devkit.read_ids(translation).items()}
        if text not in ids:
            raise InputError(f"{path}: line {line}: {devkit.META} knows no class {text}")
        return classes.number(ids[text])

    return translate


class _Cells(NamedTuple):
    """How the lines of a table are divided into cells."""

    delimiter: str
    image: int  # the cell with the image
    label: int | None  # the cell with the class; None for all after the image


def _cells(path: Path | LabelFile, names: Callable[[], Iterator[str]]) -> _Cells | None:
    """The cells of a table of CSV; None for columns that are divided by any space or comma."""
    file = as_label_file(path)
    layout = tables.layout_of(file, "")
    if layout.delimiter not in (",", ";", "\t"):
        return None
    heading = [tables.normal(cell) for cell in layout.heading]
    is_kaggles = heading[:1] == ["imageid"]
    if heading and not is_kaggles:
        images = [place for place, one in enumerate(heading) if one in tables.IMAGE_HEADINGS]
        label = tables.class_column(layout.heading)
        if label is None or not images:
            raise InputError(
                f"{path}: its columns ({', '.join(layout.heading)}) do not say which is the class; "
                "call the one with the images filename and the one with their classes label"
            )
        return _Cells(layout.delimiter, images[0], label)
    if heading:
        return None
    first = next(iter(tables.sample(file, layout)), ())
    if len(first) < 2:
        return None
    # A space may be in a name or between the columns: the images say it.
    wanted = _stem(first[0].strip())
    has_space = bool(re.search(r"[\s,\"]", wanted)) or first[0] != first[0].strip()
    is_named = has_space and any(_base(name) == wanted for name in names())
    return _Cells(layout.delimiter, 0, None) if is_named else None


def _cells_of(text: str, cells: _Cells | None) -> tuple[str, str] | None:
    """The image and the class of a line; None if it has one column."""
    if cells is None:
        columns = [column.span() for column in islice(_COLUMN.finditer(text), 2)]
        if len(columns) < 2:
            return None
        (start, end), (rest, _) = columns
        return text[start:end], text[rest:]
    row = next(csv.reader([text], delimiter=cells.delimiter, skipinitialspace=True))
    if len(row) <= max(cells.image, cells.label or 1):
        return None
    label = cells.delimiter.join(row[1:]) if cells.label is None else row[cells.label]
    return row[cells.image].strip(), label.strip()


def _by_name(
    path: Path | LabelFile,
    names: Callable[[], Iterator[str]],
    classes: _ClassNames,
    cells: _Cells | None,
) -> Labels:
    hashes, numbers = _table(path, classes, cells)
    labels = array("i")
    for name in names():
        wanted = tables.hash_of(_base(name))
        place = int(np.searchsorted(hashes, wanted))
        if place == len(hashes) or hashes[place] != wanted:
            raise InputError(f"{path}: has no line for the image {readable(name)}")
        labels.append(int(numbers[place]))
    return np.frombuffer(labels, np.int32) if labels else np.empty(0, np.int32)


def _table(
    path: Path | LabelFile, classes: _ClassNames, cells: _Cells | None
) -> tuple[npt.NDArray[np.uint64], Labels]:
    """The labels by the sorted hashes of their images' names: 12 bytes a line, not the names."""
    hashes, numbers = array("Q"), array("i")
    for line, text in lines(path):
        if line == 1 and cells is not None and cells.label is not None:
            continue
        found = _cells_of(text, cells)
        if found is None or not found[1]:
            raise InputError(f"{path}: line {line} has one column, and the first has two")
        hashes.append(tables.hash_of(_stem(found[0])))
        name = classes.named(found[1])
        is_rank = name not in classes and _is_number(name)
        numbers.append(classes.at_rank(name, path, line) if is_rank else classes.number(name))
    keys = np.frombuffer(hashes, np.uint64)
    order = np.argsort(keys, kind="stable")
    if len(keys) > 1 and (np.diff(keys[order]) == 0).any():
        raise InputError(f"{path}: names an image twice")
    return keys[order], np.frombuffer(numbers, np.int32)[order]


def lines(path: Path | LabelFile) -> Iterator[tuple[int, str]]:
    """The number and the text of each line that is neither empty nor a heading."""
    try:
        with as_label_file(path).open() as file:
            text = io.TextIOWrapper(file, tables.encoding_of(file), "surrogateescape")
            for number, line in enumerate(text, 1):
                columns = _COLUMN.search(line)
                if columns and not (number == 1 and columns[0] == "ImageId"):
                    yield number, line[columns.start() :].rstrip(_SEPARATORS)
    except UnicodeError as error:
        raise InputError(f"{path}: is not text in UTF-8: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _base(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]


def _stem(name: str) -> str:
    """The last part of a name that may lack its suffix."""
    base = name.rpartition("/")[2]
    stem, dot, suffix = base.rpartition(".")
    return stem if dot and suffix.isalpha() else base
