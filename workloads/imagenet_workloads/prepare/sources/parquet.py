"""Parquet files with an image and a label column, as Hugging Face's datasets library writes them.

A file is read by row groups: index reads the labels, pack the images of the row groups that its
shard needs. An image has no place of its own in a file: its `offset` is its row.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources.layouts import contents, decide, lines, words
from imagenet_workloads.prepare.sources.layouts.choice import PARQUET, Choice
from imagenet_workloads.prepare.sources.layouts.selection import Selection
from imagenet_workloads.prepare.sources.layouts.survey import Survey
from imagenet_workloads.prepare.sources.parquet_file import ParquetFile, digest, open_parquet
from imagenet_workloads.prepare.sources.row_groups import RowGroups
from imagenet_workloads.prepare.sources.source import (
    Image,
    Location,
    Notes,
    Source,
    Validation,
    class_name_in,
)
from imagenet_workloads.prepare.stores.blob import Blob, FileSet, changed

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "Parquet"
SUFFIX = contents.PARQUET
MAGIC = b"PAR1"

# Row groups are megabytes: a few at a time use the network fully.
_MOST_AT_ONCE = 4


class Parquet(Source):
    """The images of some Parquet files.

    The checksum of an image in a scan is a number made of its file's tag: with the row it makes the
    key of the dataset.

    Attributes:
        left_out: the files of other splits, which are not read.
    """

    kind = KIND
    reads_in_order = True

    def __init__(self, files: FileSet, names: Sequence[str], planned: Fields | None = None) -> None:
        """Opens nothing yet.

        Args:
            files: with the Parquet files; it is closed with the source.
            names: of the files to list, in order.
            planned: the tags of the files, as `version` has them; None before index.
        """
        self.where = files.where if len(names) != 1 else f"{files.where}/{names[0]}"
        self.reads_at_once = min(files.reads_at_once, _MOST_AT_ONCE)
        self._files = files
        self._names = names
        self._planned = planned
        self._opened: dict[str, ParquetFile] = {}
        self._tags: dict[str, str] = {}
        self.version = {"files": self._tags}
        self.left_out: Sequence[str] = ()
        self._groups = RowGroups(self.reads_at_once)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the files and rows."""
        if self.left_out:
            notes.left_out[decide.UNLISTED.name] = len(self.left_out), self.left_out[0]
        self._share_class_names()
        groups = (
            (number, name, group)
            for number, name in enumerate(self._names)
            for group in range(self._open(name).groups)
        )

        def listed(one: tuple[int, str, int]) -> tuple[int, list[Image]]:
            number, name, group = one
            return number, self._images(name, group)

        for number, images in map_in_order(listed, groups, self.reads_at_once):
            notes.share = number / len(self._names)
            yield from images

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image; its row group stays in memory for the next ones."""
        del size
        path, group = self._group_of(name, offset)
        file = self._open(path)
        row = offset - file.starts[group]
        if row >= file.rows(group):
            raise changed(file.where, f"has no row {offset}")
        column = self._groups.get((path, group), partial(self._read_group, path, group))
        image = column[row].as_py()
        # A row without an image is a damaged one.
        return b"" if image is None else bytes(image)

    def requests_to_read(self, locations: Iterable[Location]) -> tuple[int, int]:
        """One request for each row group in which the shard has an image."""
        groups = {self._group_of(location.name, location.offset) for location in locations}
        opened = [(self._open(name), group) for name, group in groups]
        return len(groups), sum(file.rows(group) * file.row_bytes for file, group in opened)

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def _group_of(self, name: str, row: int) -> tuple[str, int]:
        """The file of an image, and its row group."""
        path = name.rpartition("/")[0]
        return path, bisect_right(self._open(path).starts, row) - 1

    def _read_group(self, name: str, group: int) -> "pa.ChunkedArray":
        with closing(self._files.open(name)) as blob:
            return self._open(name).images(group, blob)

    def _images(self, name: str, group: int) -> list[Image]:
        """The images of a row group; their sizes are the file's mean."""
        file = self._open(name)
        checksum = int(hashlib.sha256(self._tags[name].encode()).hexdigest()[:15], 16)
        with closing(self._files.open(name)) as blob:
            labels = file.labels(group, blob)
        start = file.starts[group]
        return [
            Image(
                class_name_in(label, file.where), f"{name}/{row:09}", row, file.row_bytes, checksum
            )
            for row, label in enumerate(labels, start)
        ]

    def _share_class_names(self) -> None:
        """Gives the names of the labels in some files to those that have none.

        Raises:
            InputError: two files have different names.
        """
        opened = {name: self._open(name) for name in self._names}
        named = {file.class_names: name for name, file in opened.items() if file.class_names}
        if len(named) > 1:
            (_, one), (_, other), *_ = named.items()
            raise InputError(
                f"{self.where}: {one} and {other} name their labels differently in their metadata; "
                "write the files again by one version of the dataset"
            )
        for name, file in opened.items():
            if named and not file.class_names:
                self._opened[name] = replace(file, class_names=next(iter(named)))

    def _open(self, name: str) -> ParquetFile:
        """Reads the footer of a file, once."""
        if name not in self._opened:
            with closing(self._files.open(name)) as blob:
                file = open_parquet(blob)
                # The ETag decides, and on a volume the footer.
                tag = self._files.tag(name) or digest(blob)
            planned = self._planned
            if planned is not None and planned.has(name) and planned.text(name) != tag:
                raise changed(file.where, "is another file")
            # Two threads may have read it: the result is the same.
            self._tags[name], self._opened[name] = tag, file
        return self._opened[name]


def is_parquet(blob: Blob) -> bool:
    """Whether a file begins like one of Parquet."""
    return blob.read(0, len(MAGIC)) == MAGIC


def open_files(files: FileSet, choice: Choice | None = None) -> Source | None:
    """Opens the Parquet files of a set for index; None without any.

    Those with a split in their paths are of it: the training files, and the validation files beside
    them.

    Raises:
        InputError: some name a split and others none.
    """
    names = [name for name in files.names if name.endswith(SUFFIX)]
    choice = choice or Choice()
    if not names or choice.layout not in ("", PARQUET):
        return None
    if choice.has_labels or choice.class_level:
        raise InputError(
            f"{files.where}: holds Parquet files, which have a column of labels; remove labels and "
            "classLevel"
        )
    of = _splits(names, choice, files.where)
    source = Parquet(files, of[words.TRAINING])
    source.said = f"parquet: {lines.count(len(of[words.TRAINING]), 'file')}"
    validation = Parquet(files, of[words.VALIDATION]) if of[words.VALIDATION] else None
    if validation is None and of[words.TEST] and _has_labels(files, of[words.TEST][0]):
        validation = Parquet(files, of[words.TEST])
        source.said += "; validation: the test split, as there is no other with labels"
    elif validation is not None:
        source.said += f"; validation: {lines.count(len(of[words.VALIDATION]), 'file')}"
    if validation is not None:
        source.own_validation = partial(Validation, validation, None)
    is_test = validation is not None and not of[words.VALIDATION]
    source.left_out = [*([] if is_test else of[words.TEST]), *of[words.UNLABELLED]]
    return source


def names_to_read(names: Iterable[str]) -> list[str]:
    """The sorted Parquet files that `open_files` may read: no test split beside a validation."""
    of = _splits([name for name in names if name.endswith(SUFFIX)], Choice(), "the files")
    return sorted({*of[words.TRAINING], *(of[words.VALIDATION] or of[words.TEST])})


def _splits(names: Sequence[str], choice: Choice, where: str) -> Mapping[str, Sequence[str]]:
    """The files of each split, in order."""
    of: dict[str, list[str]] = {
        split: [] for split in (words.TRAINING, words.VALIDATION, words.TEST, words.UNLABELLED, "")
    }
    if choice.has_splits:
        selection = Selection.of(choice, Survey(where))
        for name in names:
            of[selection.split_of(name)].append(name)
        if not of[words.TRAINING]:
            raise InputError(
                f"{where}: no Parquet file is in the training split of --split-train "
                f"(source.splits); a path is such as {names[0]}"
            )
        return {**of, words.TEST: ()}
    for name, split in words.splits_of_paths(names).items():
        of[split].append(name)
    if of[words.TRAINING] and of[""]:
        raise InputError(
            f"{where}: {of[words.TRAINING][0]} names a split and {of[''][0]} none; "
            f"{lines.splits(of[words.TRAINING][:1], of[words.VALIDATION][:1])}, each with a "
            "pattern of all its files"
        )
    if not of[words.TRAINING]:
        others = of[words.VALIDATION] or of[words.TEST]
        of[words.TRAINING] = of[""] or others
        if not of[""]:
            of[words.VALIDATION] = of[words.TEST] = []
    return of


def _has_labels(files: FileSet, name: str) -> bool:
    """Whether the first images of a file have classes; those of a test split may have none."""
    with closing(files.open(name)) as blob:
        file = open_parquet(blob)
        try:
            return bool(file.groups and file.labels(0, blob))
        except InputError:
            return False


def open_planned(planned: Fields, files: FileSet) -> Source:
    """Opens the files of a plan again for pack."""
    tags = planned.object("version").object("files")
    return Parquet(files, tuple(tags.values), tags)


def open_file(files: FileSet, within: str | None, choice: Choice | None = None) -> Source:
    """Opens a single Parquet file for index; closes it on an error.

    Args:
        files: the file.
        within: a folder in it, which there is not.
        choice: what the user wrote of its layout.

    Raises:
        InputError: a folder in it is wanted, or another layout.
    """
    (name,) = files.names
    where = f"{files.where}/{name}"
    choice = choice or Choice()
    what = ""
    if within is not None:
        what = "has no folders; remove pathInArchive"
    elif choice.layout not in ("", PARQUET) or choice.has_labels or choice.class_level:
        what = "has a column of labels; remove layout, labels and classLevel"
    elif choice.has_splits:
        what = "is of one split; remove splits"
    if what:
        files.close()
        raise InputError(f"{where}: is a Parquet file, which {what}")
    source = Parquet(files, files.names)
    source.said = "parquet: 1 file"
    return source
