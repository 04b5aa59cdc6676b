"""The classes of a dataset, and what a user says of them: their words, number and names.

Words are for classes whose names say nothing to people, such as `tench` for n01440764. They come
from a file: LOC_synset_mapping.txt or words.txt (lines of a class and its words), the development
kit's meta.mat, imagenet_class_index.json, or a JSON object of classes and words. They are in
dataset.json, so they are a part of its key. The expected number and names are not: they are checked
before a plan is written.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.errors import InputError, of_field
from imagenet_workloads.prepare.layouts import devkit, labels
from imagenet_workloads.prepare.stores.blob import LabelFile, content_of, readable

_log = logging.getLogger(__name__)

_LONGEST = 1000


def read_words(
    file: Path | LabelFile | None, classes: Sequence[str], may_lack_all: bool = False
) -> dict[str, str]:
    """The words of each class that a file has, in the order of the classes.

    Raises:
        InputError: the file cannot be read, has another form, or has none of the classes.
    """
    if file is None:
        return {}
    name = str(file).lower()
    if name.endswith(".mat"):
        found = devkit.read_words(file)
    elif name.endswith(".json"):
        found = dict(_pairs_of_json(file))
    else:
        # words.txt has a tab after the class, LOC_synset_mapping.txt a space.
        rows = [line.partition("\t" if "\t" in line else " ") for _, line in labels.lines(file)]
        found = {name: words.strip() for name, _, words in rows}
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


def merged_words(
    words: Mapping[str, str], given: Mapping[str, str], classes: Sequence[str]
) -> dict[str, str]:
    """The words of a file and those given for single classes, which count more."""
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


_NAMED = 20


@dataclass(frozen=True)
class ExpectedClasses:
    """What is expected; nothing by default."""

    number: int | None = None  # of classes in the dataset
    # A file with a class on each line; columns after its name are ignored.
    names: Path | None = None

    def check(self, images: Mapping[str, int], dropped: Mapping[str, int]) -> None:
        """Compare them with the images of each class, and with the dropped classes.

        Raises:
            InputError: they differ; the message names the classes.
        """
        if self.number is not None and self.number != len(images):
            left_out = f"; left out: {_counted(dropped)}" if dropped else ""
            raise InputError(
                f"{self.number} classes are expected, and the dataset has {len(images)}: "
                f"{_counted(images, ' images')}{left_out}; correct --expected-classes "
                "(expectedClasses), or look at the source"
            )
        if self.names is not None:
            with of_field("source.expectedClassNames"):
                _check_names(self.names, images, dropped)


def _check_names(path: Path, images: Mapping[str, int], dropped: Mapping[str, int]) -> None:
    known = images.keys() | dropped.keys()
    # The first column, unless only the whole line may be a class.
    columns = ((text, text.split()[0]) for _, text in labels.lines(path))
    expected = dict.fromkeys(
        first if first in known and text not in known else text for text, first in columns
    )
    if not expected:
        raise InputError(f"{path}: names no class")
    missing = [
        f"{readable(name)} ({dropped[name]} images: too few)" if name in dropped else readable(name)
        for name in expected
        if name not in images
    ]
    others = [name for name in images if name not in expected]
    found = []
    if missing:
        found.append(f"lacks {_classes(len(missing), 'expected ')}: {listed(missing)}")
    if others:
        what = f"{_classes(len(others))} that {'is' if len(others) == 1 else 'are'} not expected"
        found.append(f"has {what}: {listed(others)}")
    if found:
        raise InputError(f"{path}: the dataset {'; it '.join(found)}")


def _classes(number: int, kind: str = "") -> str:
    return f"{number} {kind}{'class' if number == 1 else 'classes'}"


def _counted(images: Mapping[str, int], unit: str = "") -> str:
    (first, count), *others = images.items()
    return listed([f"{first} ({count}{unit})", *(f"{name} ({n})" for name, n in others)])


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
