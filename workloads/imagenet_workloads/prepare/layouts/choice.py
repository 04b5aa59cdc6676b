"""What the user wrote of the layout, splits, labels and classes of a source (`source.layout` …).

Also the lines that a refusal asks for: options of the program, and the same in a manifest.
"""

import json
import re
import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from imagenet_spec.program.option import flag
from imagenet_spec.program.sources import LAYOUTS

DEVKIT, KAGGLE, CIFAR, WEB_DATASET, PARQUET, LABELS, TREE, CLASS_FOLDERS = LAYOUTS

# Where validation images come from: from the source if it has any, from another source, or drawn.
OWN, OTHER, DRAWN = "own", "other", "drawn"
# Of the names of images such as cat.1.jpg: what their class is called.
_PATTERNS = (r"^(\D.*?)[ ._-]*\d+\.", r"^([^\W\d]+)")
_MOST_NAMES = 2_000_000
_OTHERS = ("validation_source", "http_validation", "s3_validation")
"""The options that name another source with validation images."""


@dataclass(frozen=True)
class SplitChoice:
    """The images of one split."""

    globs: tuple[str, ...] = ()  # patterns of their paths
    lists: tuple[str, ...] = ()  # files in the source, each line the end of an image's path

    def __bool__(self) -> bool:
        return bool(self.globs or self.lists)


@dataclass(frozen=True)
class Choice:
    """What ends the judging; what is absent is judged by the listing."""

    layout: str = ""  # one of LAYOUTS; empty if absent
    training: SplitChoice = field(default_factory=SplitChoice)
    validation: SplitChoice = field(default_factory=SplitChoice)
    split_table: str = ""  # a file with the split of each image's number, in place of both
    split_ids: str = ""  # the file with the path of each number
    class_level: int = 0  # the level of the folders that are classes, from 1; 0 if absent
    labels_table: str = ""  # a file in the source with the class of each image
    image_column: str = ""
    label_column: str = ""
    labels_pattern: str = ""  # a regular expression on an image's file name; its group is the class
    validates: str = OWN  # OWN, OTHER or DRAWN

    @property
    def has_splits(self) -> bool:
        return bool(self.training or self.validation or self.split_table)

    @property
    def has_labels(self) -> bool:
        return bool(self.labels_table or self.labels_pattern)

    @property
    def is_given(self) -> bool:
        return self != Choice(validates=self.validates)


def mistake(parsed: Namespace) -> str | None:
    """The mistake in the combination of these options; None without one."""
    choice = of(parsed)
    other = next((name for name in _OTHERS if getattr(parsed, name) is not None), None)
    if other is not None and parsed.validation_per_class is not None:
        return f"give either --validation-per-class or {flag(other)}, not both"
    if choice.labels_table and choice.labels_pattern:
        return "give either --labels-csv or --labels-pattern, not both"
    if (choice.image_column or choice.label_column) and not choice.labels_table:
        return "--labels-image-column and --labels-class-column go with --labels-csv"
    if bool(choice.split_table) != bool(choice.split_ids):
        return "--split-table and --split-ids go together"
    if choice.split_table and (choice.training or choice.validation):
        return "give either --split-table or --split-train and --split-validation, not both"
    if choice.validation and not choice.training:
        return "--split-validation goes with --split-train"
    if choice.validates != OWN and (choice.validation or choice.split_table):
        other = "--validation-per-class" if choice.validates == DRAWN else "a validation source"
        return f"--split-validation contradicts {other}: give one of them"
    if choice.has_labels and choice.layout not in ("", LABELS):
        return f"--layout {choice.layout} contradicts --labels-csv and --labels-pattern"
    return None


def of(parsed: Namespace, validates: str = "") -> Choice:
    """The choice in the options of imagenet-index; empty for programs without these options."""

    def given(name: str) -> Any:
        return getattr(parsed, name, None)

    def split(name: str) -> SplitChoice:
        return SplitChoice(
            tuple(given(f"split_{name}") or ()), tuple(given(f"split_{name}_list") or ())
        )

    if not validates and any(given(one) is not None for one in _OTHERS):
        validates = OTHER
    if not validates and given("validation_per_class") is not None:
        validates = DRAWN
    return Choice(
        layout=given("layout") or "",
        training=split("train"),
        validation=split("validation"),
        split_table=given("split_table") or "",
        split_ids=given("split_ids") or "",
        class_level=given("class_level") or 0,
        labels_table=given("labels_csv") or "",
        image_column=given("labels_image_column") or "",
        label_column=given("labels_class_column") or "",
        labels_pattern=given("labels_pattern") or "",
        validates=validates or OWN,
    )


VALIDATION_ALONE = Choice(validates=OTHER)
"""For validation images of another source: they have no validation images of their own."""


def split_lines(
    training: Sequence[str], validation: Sequence[str], *, is_sentence: bool = True
) -> str:
    """The lines that choose images by their paths."""
    options = [f"--split-train {shlex.quote(_escaped(one))}" for one in training]
    options += [f"--split-validation {shlex.quote(_escaped(one))}" for one in validation]
    fields = {"train": [*map(_escaped, training)], "validation": [*map(_escaped, validation)]}
    shown = json.dumps({name: {"globs": globs} for name, globs in fields.items() if globs})
    text = f"{' '.join(options)} (source.splits: {shown})"
    return f"write {text}" if is_sentence else text


def count(number: int, one: str, many: str = "") -> str:
    """A number of things.

    >>> count(1, "shard"), count(2, "shard"), count(0, "class", "classes")
    ('1 shard', '2 shards', '0 classes')
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def pattern_line(paths: Iterable[str]) -> str:
    """The lines for classes in the names of images, such as cat.1.jpg; empty if there are none."""
    names = [path.rpartition("/")[2] for path in islice(paths, _MOST_NAMES)]
    for expression in _PATTERNS:
        found = [re.search(expression, name) for name in names]
        labels = Counter(match[1] for match in found if match)
        if 2 <= len(labels) <= len(names) // 2 and labels.total() >= 0.5 * len(names):
            return (
                f"--labels-pattern {shlex.quote(expression)} "
                f"(source.labels: {{pattern: {json.dumps(expression)}}})"
            )
    return ""


def _escaped(glob: str) -> str:
    """A path with the brackets that a pattern would read as a set, as in Corn_[maize]."""
    return glob.replace("[", "[[]")
