"""The words for classes whose names say nothing to people, such as `tench` for n01440764.

They come from a file: LOC_synset_mapping.txt or words.txt (lines of a class and its words), the
development kit's meta.mat, imagenet_class_index.json, or a JSON object of classes and words. They
are in dataset.json, so they are a part of its key.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts import devkit, labels
from imagenet_workloads.prepare.stores.blob import LabelFile, content_of

_log = logging.getLogger(__name__)

_LONGEST = 1000


def read(
    file: Path | LabelFile | None, classes: Sequence[str], may_lack_all: bool = False
) -> dict[str, str]:
    """The words of each class that a file has, in the order of the classes.

    Args:
        file: the file; None without words.
        classes: of the dataset.
        may_lack_all: whether it may have words for none of them.

    Raises:
        InputError: the file cannot be read, has another form, or has none of the classes.
    """
    if file is None:
        return {}
    found = _pairs(file)
    words = {one: found[one] for one in classes if found.get(one)}
    if not words and not may_lack_all:
        raise InputError(
            f"{file}: has no words for {classes[0]} and any other class; write lines of a class "
            "and its words"
        )
    if len(words) < len(classes):
        _log.info("%s: has no words for %d classes", file, len(classes) - len(words))
    _check(words, str(file))
    return words


def merged(
    words: Mapping[str, str], given: Mapping[str, str], classes: Sequence[str]
) -> dict[str, str]:
    """The words of a file and those given for single classes, which count more.

    Raises:
        InputError: words are given for something that is no class.
    """
    unknown = [name for name in given if name not in classes]
    if unknown:
        raise InputError(
            f"--class-word (classWords): {unknown[0]!r} is no class of the dataset, such as "
            f"{classes[0]}; correct or remove it"
        )
    _check(given, "--class-word (classWords)")
    both = {**words, **given}
    return {name: both[name] for name in classes if name in both}


def _check(words: Mapping[str, str], where: str) -> None:
    for name, text in words.items():
        if len(text) > _LONGEST or not text.isprintable():
            raise InputError(
                f"{where}: the words of {name} are longer than {_LONGEST} characters or hold "
                "control characters; correct them"
            )


def _pairs(file: Path | LabelFile) -> dict[str, str]:
    name = str(file).lower()
    if name.endswith(".mat"):
        return devkit.read_words(file)
    return dict(_pairs_of_json(file) if name.endswith(".json") else _pairs_of_lines(file))


def _pairs_of_lines(file: Path | LabelFile) -> Iterator[tuple[str, str]]:
    for _, line in labels.lines(file):
        # words.txt has a tab after the class, LOC_synset_mapping.txt a space.
        separator = "\t" if "\t" in line else " "
        name, _, words = line.partition(separator)
        yield name, words.strip()


def _pairs_of_json(file: Path | LabelFile) -> Iterator[tuple[str, str]]:
    try:
        values = json.loads(content_of(file))
    except ValueError as error:
        raise InputError(f"{file}: is not valid JSON: {error}") from None
    entries = values.items() if isinstance(values, Mapping) else ()
    for name, value in entries:
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, list) and len(value) == 2 and {*map(type, value)} == {str}:
            # imagenet_class_index.json: {"0": ["n01440764", "tench"]}
            yield value[0], value[1].replace("_", " ")
        else:
            raise InputError(
                f"{file}: the entry {name!r} must be words, or a class and its words; write "
                '{"n01440764": "tench"}'
            )
