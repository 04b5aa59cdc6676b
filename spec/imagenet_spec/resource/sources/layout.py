"""How the images of a raw source get their classes and splits, for what its listing leaves open.

`imagenet-index` judges the whole listing. What is written here ends the judging of that part.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen

from imagenet_spec.resource.base import Model, OneOf
from imagenet_spec.resource.fields import RelativePath, stays_below
from imagenet_spec.rules import Rule

Glob = Annotated[str, MinLen(1), MaxLen(1024)]
Heading = Annotated[str, MinLen(1), MaxLen(256)]


class SplitImages(OneOf):
    """The images of one split."""

    globs: Annotated[tuple[Glob, ...], MinLen(1), MaxLen(32)] | None = None
    """Patterns of the images' paths in the source, as fnmatch has them: ``*`` is any text, slashes
    too, and ``**/`` may be no folder at all. Such as ``Training/**``."""

    list: RelativePath | None = None
    """A file in the source, each line the end of an image's path, with or without its suffix, such
    as Food-101's meta/train.txt."""


class Splits(Model):
    """The images of both splits. Images that neither names are left out."""

    train: SplitImages | None = None
    """The training images."""

    validation: SplitImages | None = None
    """The validation images. Absent: none, unless ``validation`` of the dataset says otherwise."""

    table: RelativePath | None = None
    """In place of both: a file in the source with lines of a number and 1 (training) or 0, such as
    CUB-200's train_test_split.txt."""

    ids: RelativePath | None = None
    """The file with lines of a number and the path of its image, such as CUB-200's images.txt."""

    rules = (
        Rule(
            cel="has(self.train) != has(self.table)",
            message="exactly one of train, table must be given",
            hint="write {train: {globs: [...]}, validation: {globs: [...]}}, or {table: …, ids: …}",
        ),
        Rule(
            cel="has(self.table) == has(self.ids)",
            message="goes with table",
            field="ids",
            hint="write both, or neither",
        ),
        Rule(
            cel="!has(self.validation) || has(self.train)",
            message="goes with train",
            field="validation",
            hint="remove it: table has both splits",
        ),
    )


class Labels(Model):
    """The class of each image: a table, or a pattern on the images' names."""

    csv: RelativePath | None = None
    """A table in the source, separated by commas, semicolons or tabs, or lines of JSON. It names
    the images by path, name or stem. ``metadata.csv`` is found without it."""

    image_column: Heading | None = None
    """The heading of the column with the images. Absent: the one that names images."""

    class_column: Heading | None = None
    """The heading of the column with the classes. Absent: the one called label, class, category or
    target."""

    pattern: Glob | None = None
    """A regular expression of Python on the file names of the images, such as ``^(cat|dog)[.]``.
    Its group is the class."""

    rules = (
        Rule(
            cel="has(self.csv) != has(self.pattern)",
            message="exactly one of csv, pattern must be given",
            hint="write {csv: labels.csv} or {pattern: '^(cat|dog)[.]'}",
        ),
        Rule(
            cel="has(self.csv) || !(has(self.imageColumn) || has(self.classColumn))",
            message="imageColumn and classColumn go with csv",
            field="csv",
            hint="remove them",
        ),
        stays_below("csv"),
    )


ClassLevel = Annotated[int, Ge(1), Le(32)]


def _goes_with_raw(kind: str) -> Rule:
    fields = ("layout", "splits", "labels", "classLevel")
    given = " || ".join(f"has(self.{field})" for field in fields)
    return Rule(
        cel=f"!has(self.{kind}) || !({given})",
        message=f"layout, splits, labels and classLevel do not go with {kind}",
        field=kind,
        hint="remove them: its classes and splits are known",
    )


RULES = (
    _goes_with_raw("prepared"),
    _goes_with_raw("synthetic"),
    Rule(
        cel="!has(self.labels) || !has(self.layout) || self.layout == 'labels'",
        message="contradicts labels",
        field="layout",
        hint="write layout: labels, or remove one of them",
    ),
)

DATASET_RULE = Rule(
    cel="!has(self.source.splits) || !(has(self.source.splits.validation)"
    " || has(self.source.splits.table)) || !has(self.validation)",
    message="contradicts source.splits, which names validation images",
    field="validation",
    hint="remove validation, or source.splits.validation",
)
