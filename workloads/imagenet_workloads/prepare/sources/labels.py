"""Reads the label file of a flat source: which class each of its images is.

A line is `NAME CLASS` (or `NAME,CLASS`; more columns are ignored, a heading `ImageId,…` too), as
Caffe's val.txt and Kaggle's LOC_val_solution.csv, or `CLASS` alone for the n-th image by name, as
ILSVRC2012_validation_ground_truth.txt. NAME may lack its suffix. CLASS is a class's name, or a
number: beside a NAME the position among the sorted names of all classes, from 0; alone
ILSVRC2012's own ID, which the development kit's meta.mat, in the same folder, translates.
"""

import hashlib
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import matlab
from imagenet_workloads.prepare.sources.source import readable

UNKNOWN = -1

Labels = npt.NDArray[np.int32]


def read(path: Path, names: Callable[[], Iterator[str]], class_names: Sequence[str]) -> Labels:
    """The class of each image, as a position in `class_names`; UNKNOWN for a class not in it.

    Args:
        path: the label file.
        names: the images' names in the order of the result; may be asked for again.
        class_names: all classes of the training source, the dropped ones too, in any order.

    Raises:
        InputError: the file cannot be read, a line is wrong, or an image has no line.
    """
    first = next(_lines(path), None)
    if first is None:
        raise InputError(f"{path}: holds no labels")
    if len(first) == 1:
        return _by_order(path, names, class_names)
    return _by_name(path, names, class_names)


def fingerprint(path: Path) -> str:
    """Hex SHA-256 of a label file, and of the meta.mat beside it where there is one.

    Raises:
        InputError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        digest.update(regular_files.read_bytes(path))
        translation = path.with_name(matlab.FILE_NAME)
        if translation.exists():
            digest.update(b"\0" + regular_files.read_bytes(translation))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _by_order(path: Path, names: Callable[[], Iterator[str]], class_names: Sequence[str]) -> Labels:
    listed = array("i")
    position = {name: number for number, name in enumerate(class_names)}
    translate = _translation(path, position)
    for number, fields in enumerate(_lines(path), 1):
        if len(fields) != 1:
            raise InputError(f"{path}: line {number} has two columns, and the first has one")
        listed.append(translate(fields[0], number))
    order = _order_by_name(names)
    if len(order) != len(listed):
        raise InputError(
            f"{path}: has {len(listed)} labels for {len(order)} images; "
            "it must have a line for each image, in the order of their names"
        )
    labels = np.empty(len(order), np.int32)
    labels[order] = np.frombuffer(listed, np.int32)
    return labels


def _order_by_name(names: Callable[[], Iterator[str]]) -> npt.NDArray[np.int64]:
    """The positions of the images, sorted by the last part of their names."""
    bases = [_base(name) for name in names()]
    return np.array(sorted(range(len(bases)), key=bases.__getitem__), np.int64)


def _translation(path: Path, position: dict[str, int]) -> Callable[[str, int], int]:
    """How a line with one column names a class."""
    ids: dict[str, str] | None = None

    def translate(text: str, line: int) -> int:
        nonlocal ids
        if text in position or not text.isdigit():
            return position.get(text, UNKNOWN)
        if ids is None:
            ids = _ids(path, line, text)
        if text not in ids:
            raise InputError(f"{path}: line {line}: {matlab.FILE_NAME} knows no class {text}")
        return position.get(ids[text], UNKNOWN)

    return translate


def _ids(path: Path, line: int, text: str) -> dict[str, str]:
    translation = path.with_name(matlab.FILE_NAME)
    if not translation.exists():
        raise InputError(
            f"{path}: line {line}: {text} is no class's name; if it is an ID of ILSVRC2012, put "
            f"the development kit's {matlab.FILE_NAME} beside the file; else write class names"
        )
    return {str(number): name for number, name in matlab.read_ids(translation).items()}


def _by_name(path: Path, names: Callable[[], Iterator[str]], class_names: Sequence[str]) -> Labels:
    hashes, classes = _table(path, class_names)
    labels = array("i")
    for name in names():
        wanted = _hash(_base(name))
        place = int(np.searchsorted(hashes, wanted))
        if place == len(hashes) or hashes[place] != wanted:
            raise InputError(f"{path}: has no line for the image {readable(name)}")
        labels.append(int(classes[place]))
    return np.frombuffer(labels, np.int32) if labels else np.empty(0, np.int32)


def _table(path: Path, class_names: Sequence[str]) -> tuple[npt.NDArray[np.uint64], Labels]:
    """The labels by the sorted hashes of their images' names: 12 bytes a line, not the names."""
    hashes, classes = array("Q"), array("i")
    position = {name: number for number, name in enumerate(class_names)}
    by_rank = sorted(class_names)
    for number, fields in enumerate(_lines(path), 1):
        if len(fields) < 2:
            raise InputError(f"{path}: line {number} has one column, and the first has two")
        hashes.append(_hash(_stem(fields[0])))
        classes.append(_named(fields[1], position, by_rank, path, number))
    found = np.frombuffer(hashes, np.uint64)
    order = np.argsort(found, kind="stable")
    if len(found) > 1 and (np.diff(found[order]) == 0).any():
        raise InputError(f"{path}: names an image twice")
    return found[order], np.frombuffer(classes, np.int32)[order]


def _named(text: str, position: dict[str, int], by_rank: list[str], path: Path, line: int) -> int:
    if text in position or not text.isdigit():
        return position.get(text, UNKNOWN)
    if int(text) >= len(by_rank):
        raise InputError(
            f"{path}: line {line}: there is no class {text}: the source has {len(by_rank)}, "
            "counted from 0"
        )
    return position[by_rank[int(text)]]


def _lines(path: Path) -> Iterator[list[str]]:
    try:
        descriptor = regular_files.open_file(path)
        with os.fdopen(descriptor, encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                fields = line.replace(",", " ").split()
                if fields and not (number == 1 and fields[0] == "ImageId"):
                    yield fields
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _base(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]


def _stem(name: str) -> str:
    """The last part of a name that may lack its suffix."""
    base = name.rpartition("/")[2]
    stem, dot, suffix = base.rpartition(".")
    return stem if dot and suffix.isalpha() else base


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
