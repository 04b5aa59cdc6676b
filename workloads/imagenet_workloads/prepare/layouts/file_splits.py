"""Which Parquet files of a source are of which split: by the user's choice, or by their names."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.containers.parquet import SUFFIX, Parquet, open_parquet
from imagenet_workloads.prepare.entry_names import (
    TEST,
    TRAINING,
    UNLABELLED,
    VALIDATION,
    splits_of_paths,
)
from imagenet_workloads.prepare.layouts.choice import (
    DEVKIT,
    PARQUET,
    TREE,
    WEB_DATASET,
    Choice,
    count,
    split_lines,
)
from imagenet_workloads.prepare.layouts.decide import UNLISTED
from imagenet_workloads.prepare.layouts.selection import Selection
from imagenet_workloads.prepare.layouts.survey import Survey
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.stores.blob import FileSet


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
    source = Parquet(files, of[TRAINING])
    source.said = f"parquet: {count(len(of[TRAINING]), 'file')}"
    validation = Parquet(files, of[VALIDATION]) if of[VALIDATION] else None
    if validation is None and of[TEST] and _has_labels(files, of[TEST][0]):
        validation = Parquet(files, of[TEST])
        source.said += "; validation: the test split, as there is no other with labels"
    elif validation is not None:
        source.said += f"; validation: {count(len(of[VALIDATION]), 'file')}"
    if validation is not None:
        source.own_validation = partial(Validation, validation, None)
    is_test = validation is not None and not of[VALIDATION]
    left_out = [*([] if is_test else of[TEST]), *of[UNLABELLED]]
    if left_out:
        source.left_out = {UNLISTED.name: (len(left_out), left_out[0])}
    return source


def names_to_read(names: Iterable[str]) -> list[str]:
    """The sorted Parquet files that `open_files` may read: no test split beside a validation."""
    of = _splits([name for name in names if name.endswith(SUFFIX)], Choice(), "the files")
    return sorted({*of[TRAINING], *(of[VALIDATION] or of[TEST])})


def _splits(names: Sequence[str], choice: Choice, where: str) -> Mapping[str, Sequence[str]]:
    """The files of each split, in order."""
    of: dict[str, list[str]] = {
        split: []
        for split in (
            TRAINING,
            VALIDATION,
            TEST,
            UNLABELLED,
            "",
        )
    }
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


def _has_labels(files: FileSet, name: str) -> bool:
    """Whether the first images of a file have classes; those of a test split may have none."""
    with closing(files.open(name)) as blob:
        file = open_parquet(blob)
        try:
            return bool(file.groups and file.labels(0, blob))
        except InputError:
            return False


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


def splits_of_archives(names: Sequence[str], choice: Choice) -> Mapping[str, str]:
    """The split of each archive; none unless there are training archives and others."""
    if choice.has_splits or choice.layout not in ("", TREE, DEVKIT, WEB_DATASET):
        return {}
    of = splits_of_paths(names)
    return of if TRAINING in of.values() and len({*of.values()}) > 1 and all(of.values()) else {}
