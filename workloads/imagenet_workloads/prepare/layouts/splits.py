"""Which images and files are of which split: as the user chose, or by the names of files.

The user chooses by patterns of paths, or by files in the source that list images. Of archives and
Parquet files, names say the split.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.containers.parquet import SUFFIX, Parquet, open_parquet
from imagenet_workloads.prepare.entry_names import (
    TEST,
    TRAINING,
    UNLABELLED,
    VALIDATION,
    splits_of_paths,
)
from imagenet_workloads.prepare.layouts import tables
from imagenet_workloads.prepare.layouts.choice import (
    DEVKIT,
    PARQUET,
    TREE,
    WEB_DATASET,
    Choice,
    SplitChoice,
    count,
    split_lines,
)
from imagenet_workloads.prepare.layouts.survey import Survey
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.stores.blob import FileSet, LabelFile, readable

_FIELD = "source.splits"
NOT_LISTED = "files and folders of a test split, not listed"
"""The rule by which a test split beside a validation split is left out before it is listed."""


class Selection:
    """Which split the user put an image in."""

    def __init__(
        self,
        where: str,
        patterns: Mapping[str, Sequence[re.Pattern[str]]],
        names: Mapping[str, Sequence[tables.Names]],
    ) -> None:
        self._where = where
        self._patterns = patterns
        self._names = names

    @classmethod
    def of(cls, choice: Choice, survey: Survey) -> Self:
        if choice.split_table:
            return cls(survey.where, {}, _by_table(choice, survey))
        chosen: Mapping[str, SplitChoice] = {TRAINING: choice.training}
        if choice.validation:
            chosen = {**chosen, VALIDATION: choice.validation}
        return cls(
            survey.where,
            {name: [re.compile(_expression(one)) for one in s.globs] for name, s in chosen.items()},
            {
                name: [
                    tables.Names(tables.lines(survey.require_file(path, _FIELD)))
                    for path in one.lists
                ]
                for name, one in chosen.items()
            },
        )

    def split_of(self, path: str) -> str:
        """TRAINING or VALIDATION; empty for an image that is in none. One in both is an error."""
        found = [
            split
            for split in (TRAINING, VALIDATION)
            if any(one.fullmatch(path) for one in self._patterns.get(split, ()))
            or any(path in one for one in self._names.get(split, ()))
        ]
        if len(found) > 1:
            raise InputError(
                f"{self._where}: {readable(path)} is in both splits; correct --split-train and "
                "--split-validation (source.splits)"
            )
        return found[0] if found else ""

    def surveys(self, survey: Survey) -> Mapping[str, Survey]:
        """The images of each split, which has some, as a survey."""
        names = dict.fromkeys((*self._patterns, *self._names))
        found = {
            split: Survey(
                survey.where,
                survey.file,
                # Bound now: each survey has the images of its split.
                lambda split=split: (  # type: ignore[misc]
                    one for one in survey.images() if self.split_of(one[0]) == split
                ),
            )
            for split in names
        }
        for path, size, label in survey.images():
            split = self.split_of(path)
            if split:
                found[split].add_image(path, size, label)
        survey.mark_archives(found.values())
        empty = next((split for split in found if not found[split].root.total), None)
        if empty is not None:
            option = "--split-train" if empty == TRAINING else "--split-validation"
            example = survey.root.any_example() if survey.root.total else "none"
            raise InputError(
                f"{survey.where}: no image is in the {empty} split of {option} (source.splits); "
                f"a path is such as {readable(example)}"
            )
        return found


def _expression(glob: str) -> str:
    """A pattern as a regular expression: as fnmatch, and `**/` may be no folder at all."""
    found, place = "", 0
    while place < len(glob):
        if glob.startswith("**/", place) and (place == 0 or glob[place - 1] == "/"):
            found, place = found + "(?:.*/)?", place + 3
            continue
        character = glob[place]
        end = glob.find("]", place + 2) if character == "[" else -1
        if character == "*":
            found += ".*"
        elif character == "?":
            found += "."
        elif end > 0:
            inside = glob[place + 1 : end].replace("\\", "\\\\")
            inside = f"^{inside[1:]}" if inside.startswith("!") else inside.replace("^", "\\^")
            found, place = f"{found}[{inside.replace('[', chr(92) + '[')}]", end
        else:
            found += re.escape(character)
        place += 1
    return f"(?s:{found})"


def _by_table(choice: Choice, survey: Survey) -> Mapping[str, Sequence[tables.Names]]:
    """The images of both splits: a number has a path in one file, and 1 or 0 in another."""
    ids = survey.require_file(choice.split_ids, _FIELD)
    paths = dict(_pair(line, ids) for line in tables.lines(ids))
    table = survey.require_file(choice.split_table, _FIELD)
    chosen: dict[str, list[str]] = {TRAINING: [], VALIDATION: []}
    for line in tables.lines(table):
        number, value = _pair(line, table)
        if number not in paths or value not in ("0", "1"):
            what = f"{choice.split_ids} has no {number}" if value in ("0", "1") else "is not 1 or 0"
            raise InputError(f"{table}: the line {readable(line)}: {what}")
        chosen[TRAINING if value == "1" else VALIDATION].append(paths[number])
    return {split: (tables.Names(names),) for split, names in chosen.items()}


def _pair(line: str, file: LabelFile) -> tuple[str, str]:
    number, _, rest = line.replace(",", " ").replace("\t", " ").partition(" ")
    if not rest.strip():
        raise InputError(f"{file}: the line {readable(line)} is not NUMBER and a value")
    return number, rest.strip()


def open_parquet_files(files: FileSet, choice: Choice | None = None) -> Source | None:
    """Opens the Parquet files of a set for index, the validation files beside the training files.

    None without any. If some name a split, all must.
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
    source = Parquet(files, of[TRAINING])
    source.said = f"parquet: {count(len(of[TRAINING]), 'file')}"
    validation = Parquet(files, of[VALIDATION]) if of[VALIDATION] else None
    is_test = False
    if validation is None and of[TEST]:
        # The images of a test split may have no classes; its first ones say so.
        with closing(files.open(of[TEST][0])) as blob:
            file = open_parquet(blob)
            with suppress(InputError):
                is_test = bool(file.groups and file.labels(0, blob))
    if is_test:
        validation = Parquet(files, of[TEST])
        source.said += "; validation: the test split, as there is no other with labels"
    elif validation is not None:
        source.said += f"; validation: {count(len(of[VALIDATION]), 'file')}"
    if validation is not None:
        source.own_validation = partial(Validation, validation, None)
    left_out = [*([] if is_test else of[TEST]), *of[UNLABELLED]]
    if left_out:
        source.left_out = {NOT_LISTED: (len(left_out), left_out[0])}
    return source


def parquet_names_to_read(names: Iterable[str]) -> list[str]:
    """The sorted Parquet files that are read for index: no test split beside a validation split."""
    of = _splits([name for name in names if name.endswith(SUFFIX)], Choice(), "the files")
    return sorted({*of[TRAINING], *(of[VALIDATION] or of[TEST])})


def _splits(names: Sequence[str], choice: Choice, where: str) -> Mapping[str, Sequence[str]]:
    of: dict[str, list[str]] = {split: [] for split in (TRAINING, VALIDATION, TEST, UNLABELLED, "")}
    if choice.has_splits:
        selection = Selection.of(choice, Survey(where))
        for name in names:
            of[selection.split_of(name)].append(name)
        if not of[TRAINING]:
            raise InputError(
                f"{where}: no Parquet file is in the training split of --split-train "
                f"(source.splits); a path is such as {names[0]}"
            )
        return {**of, TEST: ()}
    for name, split in splits_of_paths(names).items():
        of[split].append(name)
    if of[TRAINING] and of[""]:
        raise InputError(
            f"{where}: {of[TRAINING][0]} names a split and {of[''][0]} none; "
            f"{split_lines(of[TRAINING][:1], of[VALIDATION][:1])}, each with a "
            "pattern of all its files"
        )
    if not of[TRAINING]:
        others = of[VALIDATION] or of[TEST]
        of[TRAINING] = of[""] or others
        if not of[""]:
            of[VALIDATION] = of[TEST] = []
    return of


def open_parquet_file(files: FileSet, within: str | None, choice: Choice | None = None) -> Source:
    """Opens a single Parquet file for index; closes it on an error, such as another layout."""
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


def splits_of_archives(names: Sequence[str], choice: Choice) -> Mapping[str, str]:
    """The split of each archive; none unless there are training archives and others."""
    if choice.has_splits or choice.layout not in ("", TREE, DEVKIT, WEB_DATASET):
        return {}
    of = splits_of_paths(names)
    return of if TRAINING in of.values() and len({*of.values()}) > 1 and all(of.values()) else {}
