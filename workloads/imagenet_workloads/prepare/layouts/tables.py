"""Tables of labels: .csv, .tsv, .txt and .jsonl files whose rows name images, and how one is found.

The delimiter is that of the first line. Which column has the images is found by the names of the
source's images; which has the classes, by its heading.
"""

import csv
import hashlib
import io
import json
import re
import shlex
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import numpy as np

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import IMAGE_SUFFIXES
from imagenet_workloads.prepare.layouts import devkit
from imagenet_workloads.prepare.layouts.choice import Choice
from imagenet_workloads.prepare.layouts.survey import Node, Survey
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
# The most tables whose rows are compared with the images.
_MOST = 60
# The folders in the names of a table's images, and the images of one name that are told apart.
_DEEPEST, _MOST_ALIKE = 3, 8
# A table names images if this share of its first rows does.
_ENOUGH = 0.5
_COCO = (
    'python -c "import json, sys; d = json.load(open(sys.argv[1])); '
    "n = {i['id']: i['file_name'] for i in d['images']}; "
    "c = {i['id']: i['name'] for i in d['categories']}; print('file_name,label'); "
    "[print(n[a['image_id']], c[a['category_id']], sep=',') for a in d['annotations']]\""
)


class Layout(NamedTuple):
    """How the rows of a file are divided."""

    delimiter: str  # between the cells; empty for whitespace, `json` for objects of JSON
    heading: tuple[str, ...]  # the names of the columns; empty without any


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


def layout_of(file: LabelFile, path: str, columns: Collection[str] = ()) -> Layout:
    """How a file is divided, by its first line; one with any of the `columns` is a heading."""
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
    is_heading |= not {cell.strip() for cell in heading}.isdisjoint(columns)
    return Layout(delimiter, tuple(heading) if is_heading else ())


def rows(file: LabelFile, layout: Layout) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields the number of the line and the cells of each row below the heading."""
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


class Table:
    """The class of each image that a table names: 12 bytes a row, and not its names."""

    def __init__(self, file: LabelFile, layout: Layout, image: int, label: int, depth: int) -> None:
        """Reads the whole table.

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
            hashes.append(hash_of(key_of(cells[image].strip(), depth)))
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
        wanted = hash_of(key_of(path, self.depth))
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
            self._hashes.add(hash_of(key_of(line, depth)))

    def __contains__(self, path: str) -> bool:
        return any(hash_of(key_of(path, depth)) in self._hashes for depth in self._depths)


def lines(file: LabelFile) -> Iterator[str]:
    """Yields the lines of a file that hold anything, without spaces around them."""
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


def encoding_of(file: io.BufferedReader) -> str:
    """UTF-8, with or without a byte order mark, unless the mark is that of UTF-16."""
    return "utf-16" if file.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _text(file: LabelFile) -> io.TextIOWrapper:
    try:
        opened = file.open()
        encoding = encoding_of(opened)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    return io.TextIOWrapper(opened, encoding, "surrogateescape", newline="")


def hash_of(text: str) -> int:
    """A hash of 64 bits, the same in each process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class _Candidate(NamedTuple):
    path: str
    file: LabelFile
    layout: Layout
    rows: Sequence[Sequence[str]]


class _Reading(NamedTuple):
    """What a table says of some images."""

    candidate: _Candidate
    image: int
    depth: int  # the folders in their names
    labels: Sequence[int]  # the columns that may have classes
    label: int | None  # the one that has; None if nothing says which


class FoundTables:
    """The tables of a survey whose rows name its images, or those of a part of it."""

    def __init__(self, survey: Survey, part: Survey | None = None) -> None:
        self._survey = survey
        self._images = (part or survey).images
        self._chosen: Table | None = None
        self._candidates: list[_Candidate] = []
        self._alike: dict[str, list[str]] = {}

    def chosen(self, choice: Choice) -> Table:
        """The table that the user chose."""
        if self._chosen is not None:
            return self._chosen
        file = self._survey.require_file(choice.labels_table, "source.labels")
        written = choice.image_column, choice.label_column
        columns = [name for name in written if name and not _is_number(name)]
        one = _candidate(choice.labels_table, file, columns)
        self._candidates = [one]
        self._look_up()
        heading = one.layout.heading
        reading = self._reading(one, [self._survey.root], is_asked=True)
        if choice.image_column:
            image = _column(file, heading, choice.image_column, "labels.imageColumn")
        elif reading is not None:
            image = reading.image
        else:
            raise InputError(
                f"{file}: its rows name no images of the source by path, name or stem; its columns "
                f"are {_columns(heading) or 'without a heading'}; write --labels-image-column"
            )
        if choice.label_column:
            label: int | None = _column(file, heading, choice.label_column, "labels.classColumn")
        else:
            label = class_column(heading)
            if label is None and reading is not None:
                label = reading.label
        if label is None:
            raise InputError(
                f"{file}: which column has the classes is not clear; write --labels-class-column "
                f"(labels.classColumn), one of {_columns(heading) or '1, 2, …'}"
            )
        depth = 0 if reading is None or reading.image != image else reading.depth
        self._chosen = Table(file, one.layout, image, label, depth)
        return self._chosen

    def labels(
        self,
        nodes: Sequence[Node],
        class_roots: Sequence[str],
        others: Sequence[str] = (),
    ) -> Table | None:
        """The table with the classes of all images of a split; None if there is none.

        The tables in class folders, below `class_roots`, and of other splits do not count.

        Raises:
            InputError: a table names them and does not say the class, or not of all, or two do.
        """
        self._candidates = [
            _candidate(path, file)
            for path in self._survey.tables
            if _may_count(path)
            # A table in a class folder is about its images alone.
            and not any(
                (folder := path.rpartition("/")[0]) != root
                and folder.startswith(f"{root}/" if root else "")
                for root in class_roots
            )
            and not any(path.startswith(f"{other}/") for other in others)
            and (file := self._survey.file(path)) is not None
        ][:_MOST]
        self._look_up()
        readings = [found for one in self._candidates if (found := self._reading(one, nodes))]
        clear = [one for one in readings if one.label is not None]
        if len(clear) > 1:
            names = " and ".join(readable(one.candidate.path) for one in clear[:2])
            raise InputError(
                f"{self._survey.where}: {names} both label its images; choose one: "
                f"{_line(clear[0])}"
            )
        if not clear and readings:
            unclear = readings[0]
            heading = unclear.candidate.layout.heading
            shown = _columns(heading) or "without a heading"
            raise InputError(
                f"{self._survey.where}: {readable(unclear.candidate.path)} names its images, and "
                f"which column has their classes is not clear ({shown}); {_line(unclear)}; if the "
                "folders are the classes, write --layout classFolders (source.layout)"
            )
        if not clear:
            return None
        reading = clear[0]
        assert reading.label is not None
        candidate = reading.candidate
        table = Table(candidate.file, candidate.layout, reading.image, reading.label, reading.depth)
        self._require_all(table, nodes)
        return table

    def _require_all(self, table: Table, nodes: Sequence[Node]) -> None:
        starts = tuple(f"{node.path}/" if node.path else "" for node in nodes)
        paths = [
            path
            for path, _, _ in self._images()
            if path.startswith(starts) and table.label_of(path) is None
        ]
        if paths:
            total = sum(node.total for node in nodes)
            raise InputError(
                f"{table.file}: labels {total - len(paths)} of {total} images, and not "
                f"{readable(paths[0])}; add lines for the others, or choose images by "
                "--split-train GLOB (source.splits); if the folders are the classes, write "
                "--layout classFolders (source.layout)"
            )

    def _look_up(self) -> None:
        """Finds the images that the first rows of the tables name, in one go."""
        wanted = {
            key_of(cell.strip(), 0)
            for one in self._candidates
            for cells in one.rows
            for cell in cells
        }
        self._alike = {}
        if not wanted:
            return
        for path, _, _ in self._images():
            key = key_of(path, 0)
            if key in wanted:
                alike = self._alike.setdefault(key, [])
                if len(alike) < _MOST_ALIKE:
                    alike.append(path)

    def _reading(
        self, one: _Candidate, nodes: Sequence[Node], *, is_asked: bool = False
    ) -> _Reading | None:
        starts = tuple(f"{node.path}/" if node.path else "" for node in nodes)
        columns = max(map(len, one.rows), default=0)
        best: tuple[int, int, int, int] = (0, 0, 0, 0)
        named: dict[int, str] = {}
        for column in range(columns):
            cells = [row[column].strip() if column < len(row) else "" for row in one.rows]
            for depth in range(min(_DEEPEST, max(c.count("/") for c in cells)), -1, -1):
                found = {
                    number: paths[0]
                    for number, cell in enumerate(cells)
                    if cell and len(paths := self._named(cell, depth, starts)) == 1
                }
                heading = one.layout.heading[column] if column < len(one.layout.heading) else ""
                is_usual = normal(heading) in IMAGE_HEADINGS
                rank = (len(found), is_usual, depth, -column)
                if rank > best:
                    best, named = rank, found
        if not named or (len(named) < _ENOUGH * len(one.rows) and not is_asked):
            return None
        image, depth = -best[3], best[2]
        rows = [(one.rows[number], path) for number, path in named.items()]
        others = [column for column in range(columns) if column != image]
        values = {
            column: [row[column].strip() if column < len(row) else "" for row, _ in rows]
            for column in others
        }
        if not is_asked and any(_equals_folders(found, rows) for found in values.values()):
            return None
        names = one.layout.heading
        labels = [c for c in others if may_be_labels(names, c, values[c])]
        label = class_column(names)
        if label is None and not names and len(others) == 1:
            (other,) = others
            # A number for each image is no class.
            label = other if 1 < len({*values[other]}) <= len(rows) // 2 else None
        if label is None and len(labels) == 1 and len(names) == 2:
            label = labels[0]
        labels = [*labels, *([label] if label is not None and label not in labels else [])]
        return _Reading(one, image, depth, labels, label) if labels else None

    def _named(self, cell: str, depth: int, starts: tuple[str, ...]) -> list[str]:
        wanted = key_of(cell, depth)
        return [
            path
            for path in self._alike.get(key_of(cell, 0), ())
            if path.startswith(starts) and key_of(path, depth) == wanted
        ]


def hints(paths: Iterable[str]) -> str:
    """What may hold labels in another form, with the commands that make a table of it."""
    found = []
    for path in paths:
        name = path.rpartition("/")[2]
        file = shlex.quote(path)
        if name.endswith(".mat") and name != "meta.mat":
            found.append(
                f'{readable(path)} may hold labels: pip install scipy; python -c "from scipy.io '
                f'import loadmat; print(loadmat({path!r}))" shows them'
            )
        elif name.endswith(".json") and re.search(r"instances|annotation|coco|train|val", name):
            found.append(f"{readable(path)} may be of COCO: {_COCO} {file} > labels.csv")
        elif re.search(r"imagelabels.*\.csv$|class-descriptions.*\.csv$", name):
            found.append(
                f"{readable(path)} is a table of Open Images: keep one line of ImageID,LabelName "
                "an image in labels.csv"
            )
    if not found:
        return ""
    return (
        f"; {'; '.join(found[:3])}; write lines of file_name,label into labels.csv beside the "
        "images, then --labels-csv labels.csv (source.labels: {csv: labels.csv})"
    )


def _may_count(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_table = name.endswith((".csv", ".tsv", ".txt", ".jsonl"))
    is_table &= not re.match(r"read_?me|licen[sc]e|copying|citation|requirements", name.lower())
    # An example of what Kaggle wants has labels that are made up.
    is_table &= "submission" not in name.lower()
    return is_table and name not in devkit.LABEL_FILE_NAMES


def _candidate(path: str, file: LabelFile, columns: Collection[str] = ()) -> _Candidate:
    layout = layout_of(file, path, columns)
    return _Candidate(path, file, layout, sample(file, layout))


def _equals_folders(values: Sequence[str], rows: Sequence[tuple[Sequence[str], str]]) -> bool:
    """Whether a column says what the folders say, perhaps by other names."""
    folders = [path.split("/")[:-1] for _, path in rows]
    if all(
        any(
            value == folder
            or (
                (value + folder).isascii()
                and value.isdigit()
                and folder.isdigit()
                and int(value) == int(folder)
            )
            for folder in above
        )
        for value, above in zip(values, folders, strict=True)
    ):
        return True
    pairs = {(value, tuple(above)) for value, above in zip(values, folders, strict=True)}
    of_values, of_folders = {value for value, _ in pairs}, {above for _, above in pairs}
    return len(pairs) == len(of_values) == len(of_folders) > 1


def _column(file: LabelFile, heading: Sequence[str], name: str, field: str) -> int:
    """The column of a heading, or of a number in a table without a heading."""
    if not heading and _is_number(name):
        return int(name) - 1
    places = [place for place, cell in enumerate(heading) if cell.strip() == name]
    if not places:
        columns = _columns(heading) or "no heading"
        raise InputError(f"{file}: has no column {name!r} ({field}); its columns are {columns}")
    return places[0]


def _is_number(name: str) -> bool:
    """Whether a column is written by its number, from 1."""
    return name.isascii() and name.isdigit() and int(name) > 0


def _columns(heading: Sequence[str]) -> str:
    return ", ".join(readable(cell) for cell in heading)


def _line(reading: _Reading) -> str:
    heading, column = reading.candidate.layout.heading, reading.label
    if column is None:
        column = reading.labels[0]
    name = heading[column] if column < len(heading) else str(column + 1)
    path = reading.candidate.path
    return (
        f"write --labels-csv {shlex.quote(path)} --labels-class-column {shlex.quote(name)} "
        f"(source.labels: {{csv: {path}, classColumn: {name}}})"
    )
