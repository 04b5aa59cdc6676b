"""Tables of labels: .csv, .tsv, .txt and .jsonl files whose rows name images.

The delimiter is that of the first line. Which column has the images is found by the names of the
source's images; which has the classes, by its heading.
"""

import csv
import hashlib
import io
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import numpy as np

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import IMAGE_SUFFIXES
from imagenet_workloads.prepare.stores.blob import LabelFile, readable

# Headings of classes, those that say most first: letters and digits in lower case.
_CLASS_HEADINGS = (
    ("label", "class", "category", "target", "cls"),
    ("labelname", "classname", "categoryname", "targetname"),
    ("labelid", "classid", "categoryid", "targetid", "labels", "predictionstring"),
)
IMAGE_HEADINGS = frozenset((
    "filename", "file", "filepath", "filenames", "image", "imageid", "imagename", "imagepath",
    "img", "imgname", "imgpath", "id", "name", "path", "images",
))  # fmt: skip
# A column of sizes or places, which no class is called.
_MEASURES = frozenset((
    "width", "height", "depth", "xmin", "ymin", "xmax", "ymax", "x", "y", "x1", "x2", "y1", "y2",
    "roix1", "roiy1", "roix2", "roiy2", "size", "area", "confidence", "score", "index",
))  # fmt: skip
# Rows that are looked at to find out what a table holds.
SAMPLE = 200
_LONGEST_FIELD = 1 << 20


class Layout(NamedTuple):
    """How the rows of a file are divided.

    Attributes:
        delimiter: between the cells; empty for whitespace, `json` for objects of JSON.
        heading: the names of the columns; empty without any.
    """

    delimiter: str
    heading: tuple[str, ...]


def key_of(path: str, depth: int) -> str:
    """The last parts of a path, without the suffix of an image.

    >>> key_of("a/b/1.jpg", 0), key_of("a/b/1.x", 1)
    ('1', 'b/1.x')
    """
    key = "/".join(path.replace("\\", "/").split("/")[-depth - 1 :])
    stem, dot, suffix = key.rpartition(".")
    return stem if dot and f".{suffix.lower()}" in IMAGE_SUFFIXES else key


def normal(heading: str) -> str:
    """A heading in lower case, of letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", heading.lower())


def is_submission(path: str) -> bool:
    """Whether a table is an example of what Kaggle wants: its labels are made up."""
    return "submission" in path.rpartition("/")[2].lower()


def layout_of(file: LabelFile, path: str) -> Layout:
    """How a file is divided, by its first line.

    Raises:
        InputError: it cannot be read.
    """
    with closing(_text(file)) as text:
        first = text.readline(_LONGEST_FIELD).rstrip("\r\n")
    if path.endswith(".jsonl") or first.startswith("{"):
        return Layout("json", tuple(_object(first, file)) if first else ())
    delimiter = next((one for one in ("\t", ";", ",") if one in first), "")
    cells = _cells([first], delimiter)
    heading = next(cells, ())
    known = {normal(cell) for cell in heading}
    is_heading = bool(known & IMAGE_HEADINGS or known & {h for g in _CLASS_HEADINGS for h in g})
    is_heading |= first.startswith("#")
    return Layout(delimiter, tuple(heading) if is_heading else ())


def rows(file: LabelFile, layout: Layout) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields the number of the line and the cells of each row below the heading.

    Raises:
        InputError: it cannot be read.
    """
    with closing(_text(file)) as text:
        if layout.delimiter == "json":
            for number, line in enumerate(text, 1):
                if line.strip():
                    values = _object(line, file)
                    yield number, [str(values.get(name, "")) for name in layout.heading]
            return
        found = _cells(text, layout.delimiter)
        try:
            for number, cells in enumerate(found, 1):
                if (number > 1 or not layout.heading) and any(cells):
                    yield number, cells
        except csv.Error as error:
            raise InputError(f"{file}: cannot be read as a table: {error}") from None


def class_column(heading: Sequence[str]) -> int | None:
    """The one column whose heading says that it has the classes; None without one, or if several.

    >>> class_column(["filename", "width", "class"]), class_column(["id", "class", "label"])
    (2, None)
    """
    names = [normal(cell) for cell in heading]
    for group in _CLASS_HEADINGS:
        found = [place for place, name in enumerate(names) if name in group]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def may_be_labels(heading: Sequence[str], column: int, values: Sequence[str]) -> bool:
    """Whether a column may have classes: it says so, or its values come again and again."""
    name = normal(heading[column]) if column < len(heading) else ""
    if name in _MEASURES or name in IMAGE_HEADINGS:
        return False
    if name and any(group in name for group in ("label", "class", "category", "species", "breed")):
        return True
    distinct = len(set(values))
    is_number = all(re.fullmatch(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", value) for value in values)
    return 1 < distinct <= len(values) // 2 and (bool(name) or not is_number)


def column_named(file: LabelFile, heading: Sequence[str], name: str, field: str) -> int:
    """The column of a heading.

    Raises:
        InputError: there is none.
    """
    places = [place for place, cell in enumerate(heading) if cell.strip() == name]
    if not places:
        columns = ", ".join(readable(cell) for cell in heading) or "no heading"
        raise InputError(f"{file}: has no column {name!r} ({field}); its columns are {columns}")
    return places[0]


class Table:
    """The class of each image that a table names: 12 bytes a row, and not its names."""

    def __init__(self, file: LabelFile, layout: Layout, image: int, label: int, depth: int) -> None:
        """Reads the whole table.

        Args:
            file: with the rows.
            layout: of its rows.
            image: the column of images.
            label: the column of classes.
            depth: the folders in the names of its images.

        Raises:
            InputError: it cannot be read, a row has no class, or an image has two classes.
        """
        self.file = file
        self.depth = depth
        hashes, numbers = array("Q"), array("I")
        classes: dict[str, int] = {}
        for line, cells in rows(file, layout):
            if max(image, label) >= len(cells) or not cells[label].strip():
                raise InputError(f"{file}: line {line} has no class; write one, or remove the line")
            hashes.append(_hash(key_of(cells[image].strip(), depth)))
            numbers.append(classes.setdefault(cells[label].strip(), len(classes)))
        self.classes = tuple(classes)
        found = np.frombuffer(hashes, np.uint64) if hashes else np.empty(0, np.uint64)
        order = np.argsort(found, kind="stable")
        self._hashes = found[order]
        self._numbers = np.frombuffer(numbers, np.uint32)[order] if numbers else order
        same = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if (self._numbers[same] != self._numbers[same + 1]).any():
            raise InputError(f"{file}: names an image twice, with two classes; remove one line")

    def __len__(self) -> int:
        return len(self._hashes)

    def label_of(self, path: str) -> str | None:
        """The class of an image; None if the table does not name it."""
        wanted = _hash(key_of(path, self.depth))
        place = int(np.searchsorted(self._hashes, np.uint64(wanted)))
        if place == len(self._hashes) or int(self._hashes[place]) != wanted:
            return None
        return self.classes[int(self._numbers[place])]


class Names:
    """The ends of paths that a file lists, one in a line, as hashes by their depth."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._hashes: set[int] = set()
        self._depths: set[int] = set()
        for line in lines:
            depth = line.count("/")
            self._depths.add(depth)
            self._hashes.add(_hash(key_of(line, depth)))

    def __contains__(self, path: str) -> bool:
        return any(_hash(key_of(path, depth)) in self._hashes for depth in self._depths)


def lines(file: LabelFile) -> Iterator[str]:
    """Yields the lines of a file that hold anything, without spaces around them.

    Raises:
        InputError: it cannot be read.
    """
    with closing(_text(file)) as text:
        yield from filter(None, (line.strip() for line in text))


def sample(file: LabelFile, layout: Layout) -> list[Sequence[str]]:
    """The first rows of a table."""
    return [cells for _, cells in islice(rows(file, layout), SAMPLE)]


def _cells(text: Iterable[str], delimiter: str) -> Iterator[Sequence[str]]:
    if delimiter:
        yield from csv.reader(text, delimiter=delimiter, skipinitialspace=True)
        return
    for line in text:
        yield line.lstrip("#").split()


def _object(line: str, file: LabelFile) -> dict[str, object]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: a line is not valid JSON: {error}") from None
    return values if isinstance(values, dict) else {}


def _text(file: LabelFile) -> io.TextIOWrapper:
    try:
        opened = file.open()
        encoding = "utf-16" if opened.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    return io.TextIOWrapper(opened, encoding, "surrogateescape", newline="")


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
