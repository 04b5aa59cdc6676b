"""Finds the tables of a source that label its images, and says what else may hold labels."""

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.layouts import tables
from imagenet_workloads.prepare.sources.layouts.choice import Choice
from imagenet_workloads.prepare.sources.layouts.survey import Node, Survey
from imagenet_workloads.prepare.stores.blob import LabelFile, readable

# The most tables whose rows are compared with the images.
_MOST = 60
# The folders in the names of a table's images, and the images of one name that are told apart.
_DEEPEST, _MOST_ALIKE = 3, 8
# A table names images if this share of its first rows does.
_ENOUGH = 0.5


class _Candidate(NamedTuple):
    path: str
    file: LabelFile
    layout: tables.Layout
    rows: Sequence[Sequence[str]]


class _Reading(NamedTuple):
    """What a table says of some images.

    Attributes:
        candidate: the table.
        image: its column of images.
        depth: the folders in their names.
        labels: the columns that may have classes.
        label: the one that has; None if nothing says which.
    """

    candidate: _Candidate
    image: int
    depth: int
    labels: Sequence[int]
    label: int | None


class FoundTables:
    """The tables of a source whose rows name its images."""

    def __init__(self, survey: Survey, part: Survey | None = None) -> None:
        """Reads nothing yet.

        Args:
            survey: with the tables.
            part: of the images that they may name; None for all.
        """
        self._survey = survey
        self._images = (part or survey).images
        self._chosen: tables.Table | None = None
        self._candidates: list[_Candidate] = []
        self._alike: dict[str, list[str]] = {}

    def chosen(self, choice: Choice) -> tables.Table:
        """The table that the user chose.

        Raises:
            InputError: there is no such file or column, or it is not clear which has what.
        """
        if self._chosen is not None:
            return self._chosen
        file = self._survey.require_file(choice.labels_table, "source.labels")
        one = _candidate(choice.labels_table, file)
        self._candidates = [one]
        self._look_up()
        heading = one.layout.heading
        reading = self._reading(one, [self._survey.root], is_asked=True)
        if reading is None and not choice.image_column:
            raise InputError(
                f"{file}: its rows name no images of the source by path, name or stem; its columns "
                f"are {_columns(heading) or 'without a heading'}; write --labels-image-column"
            )
        if choice.image_column:
            image = _column(file, heading, choice.image_column, "labels.imageColumn")
        else:
            assert reading is not None
            image = reading.image
        if choice.label_column:
            label: int | None = _column(file, heading, choice.label_column, "labels.classColumn")
        else:
            label = tables.class_column(heading)
            if label is None and reading is not None:
                label = reading.label
        if label is None:
            raise InputError(
                f"{file}: which column has the classes is not clear; write --labels-class-column "
                f"(labels.classColumn), one of {_columns(heading) or '1, 2, …'}"
            )
        depth = 0 if reading is None or reading.image != image else reading.depth
        self._chosen = tables.Table(file, one.layout, image, label, depth)
        return self._chosen

    def labels(
        self,
        nodes: Sequence[Node],
        class_roots: Sequence[str],
        others: Sequence[str] = (),
    ) -> tables.Table | None:
        """The table with the classes of all images of a split; None if there is none.

        Args:
            nodes: the folders of the split.
            class_roots: the folders with class folders, whose own tables do not count.
            others: the folders of other splits, whose tables do not count.

        Raises:
            InputError: a table names them and does not say the class, or not of all, or two do.
        """
        self._candidates = [
            _candidate(path, file)
            for path in self._survey.tables
            if _may_count(path)
            and not _is_of_class(path, class_roots)
            and not any(path.startswith(f"{other}/") for other in others)
            and (file := self._survey.file(path)) is not None
        ][:_MOST]
        self._look_up()
        readings = []
        for one in self._candidates:
            reading = self._reading(one, nodes)
            if reading is not None:
                readings.append(reading)
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
        table = tables.Table(
            candidate.file, candidate.layout, reading.image, reading.label, reading.depth
        )
        self._require_all(table, nodes)
        return table

    def _require_all(self, table: tables.Table, nodes: Sequence[Node]) -> None:
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
            tables.key_of(cell.strip(), 0)
            for one in self._candidates
            for cells in one.rows
            for cell in cells
        }
        self._alike = {}
        if not wanted:
            return
        for path, _, _ in self._images():
            key = tables.key_of(path, 0)
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
                is_usual = tables.normal(heading) in tables.IMAGE_HEADINGS
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
        labels = [c for c in others if tables.may_be_labels(names, c, values[c])]
        label = tables.class_column(names)
        if label is None and not names and len(others) == 1:
            (other,) = others
            # A number for each image is no class.
            label = other if 1 < len({*values[other]}) <= len(rows) // 2 else None
        if label is None and len(labels) == 1 and len(names) == 2:
            label = labels[0]
        labels = [*labels, *([label] if label is not None and label not in labels else [])]
        return _Reading(one, image, depth, labels, label) if labels else None

    def _named(self, cell: str, depth: int, starts: tuple[str, ...]) -> list[str]:
        """The images below some folders that a cell names."""
        wanted = tables.key_of(cell, depth)
        return [
            path
            for path in self._alike.get(tables.key_of(cell, 0), ())
            if path.startswith(starts) and tables.key_of(path, depth) == wanted
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


_COCO = (
    'python -c "import json, sys; d = json.load(open(sys.argv[1])); '
    "n = {i['id']: i['file_name'] for i in d['images']}; "
    "c = {i['id']: i['name'] for i in d['categories']}; print('file_name,label'); "
    "[print(n[a['image_id']], c[a['category_id']], sep=',') for a in d['annotations']]\""
)


def _may_count(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_table = name.endswith((".csv", ".tsv", ".txt", ".jsonl"))
    is_table &= not re.match(r"read_?me|licen[sc]e|copying|citation|requirements", name.lower())
    return is_table and name not in trees.LABEL_FILE_NAMES and not tables.is_submission(path)


def _is_of_class(path: str, class_roots: Sequence[str]) -> bool:
    """Whether a table lies in a class folder, and is about its images alone."""
    folder = path.rpartition("/")[0]
    return any(
        folder != root and folder.startswith(f"{root}/" if root else "") for root in class_roots
    )


def _candidate(path: str, file: LabelFile) -> _Candidate:
    layout = tables.layout_of(file, path)
    return _Candidate(path, file, layout, tables.sample(file, layout))


def _equals_folders(values: Sequence[str], rows: Sequence[tuple[Sequence[str], str]]) -> bool:
    """Whether a column says what the folders say, perhaps by other names."""
    folders = [path.split("/")[:-1] for _, path in rows]
    if all(
        any(_same(value, folder) for folder in above)
        for value, above in zip(values, folders, strict=True)
    ):
        return True
    pairs = {(value, tuple(above)) for value, above in zip(values, folders, strict=True)}
    of_values, of_folders = {value for value, _ in pairs}, {above for _, above in pairs}
    return len(pairs) == len(of_values) == len(of_folders) > 1


def _same(value: str, folder: str) -> bool:
    if value == folder:
        return True
    is_number = value.isascii() and value.isdigit() and folder.isascii() and folder.isdigit()
    return is_number and int(value) == int(folder)


def _column(file: LabelFile, heading: Sequence[str], name: str, field: str) -> int:
    if not heading and name.isascii() and name.isdigit() and int(name) > 0:
        return int(name) - 1
    return tables.column_named(file, heading, name, field)


def _columns(heading: Sequence[str]) -> str:
    return ", ".join(readable(cell) for cell in heading)


def _line(reading: _Reading) -> str:
    """The line that chooses the classes of a table."""
    heading, column = reading.candidate.layout.heading, reading.label
    if column is None:
        column = reading.labels[0]
    name = heading[column] if column < len(heading) else str(column + 1)
    path = reading.candidate.path
    return (
        f"write --labels-csv {shlex.quote(path)} --labels-class-column {shlex.quote(name)} "
        f"(source.labels: {{csv: {path}, classColumn: {name}}})"
    )
