"""How the images of a raw source get their classes and splits, for what its listing leaves open.

`imagenet-index` judges the whole listing. What is written here ends the judging of that part.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from imagenet_operator.api.base import Model, OneOf, Rule
from imagenet_operator.api.fields import RelativePath, stays_below

Layout = Literal[
    "devkit", "kaggle", "cifar", "webDataset", "parquet", "labels", "tree", "classFolders"
]

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
            holds=lambda splits: (splits.train is not None) != (splits.table is not None),
            hint="write {train: {globs: [...]}, validation: {globs: [...]}}, or {table: …, ids: …}",
        ),
        Rule(
            cel="has(self.table) == has(self.ids)",
            message="goes with table",
            field="ids",
            holds=lambda splits: (splits.table is None) == (splits.ids is None),
            hint="write both, or neither",
        ),
        Rule(
            cel="!has(self.validation) || has(self.train)",
            message="goes with train",
            field="validation",
            holds=lambda splits: splits.validation is None or splits.train is not None,
            hint="remove it: table has both splits",
        ),
    )

    @property
    def validates(self) -> bool:
        """Whether they name validation images."""
        return self.validation is not None or self.table is not None

    @property
    def arguments(self) -> list[str]:
        """The arguments of index."""
        found = []
        for name, images in (("train", self.train), ("validation", self.validation)):
            if images is not None:
                # In one argument: a pattern may begin with a dash.
                found += [f"--split-{name}={glob}" for glob in images.globs or ()]
                found += [] if images.list is None else [f"--split-{name}-list={images.list}"]
        if self.table is not None:
            found += [f"--split-table={self.table}", f"--split-ids={self.ids}"]
        return found


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
            holds=lambda labels: (labels.csv is not None) != (labels.pattern is not None),
            hint="write {csv: labels.csv} or {pattern: '^(cat|dog)[.]'}",
        ),
        Rule(
            cel="has(self.csv) || !(has(self.imageColumn) || has(self.classColumn))",
            message="imageColumn and classColumn go with csv",
            field="csv",
            holds=lambda labels: (
                labels.csv is not None or (labels.image_column or labels.class_column) is None
            ),
            hint="remove them",
        ),
        stays_below("csv"),
    )

    @property
    def arguments(self) -> list[str]:
        """The arguments of index."""
        values = {
            "csv": self.csv,
            "image-column": self.image_column,
            "class-column": self.class_column,
            "pattern": self.pattern,
        }
        return [f"--labels-{name}={value}" for name, value in values.items() if value is not None]


ClassLevel = Annotated[int, Ge(1), Le(32)]


def arguments(source: Any) -> list[str]:
    """Return the arguments of index by which a source's layout is chosen."""
    return [
        *([] if source.layout is None else [f"--layout={source.layout}"]),
        *([] if source.splits is None else source.splits.arguments),
        *([] if source.labels is None else source.labels.arguments),
        *([] if source.class_level is None else [f"--class-level={source.class_level}"]),
    ]


def _goes_with_raw(kind: str) -> Rule:
    fields = ("layout", "splits", "labels", "classLevel")
    given = " || ".join(f"has(self.{field})" for field in fields)
    return Rule(
        cel=f"!has(self.{kind}) || !({given})",
        message=f"layout, splits, labels and classLevel do not go with {kind}",
        field=kind,
        holds=lambda source: kind not in source.given or not arguments(source),
        hint="remove them: its classes and splits are known",
    )


RULES = (
    _goes_with_raw("prepared"),
    _goes_with_raw("synthetic"),
    Rule(
        cel="!has(self.labels) || !has(self.layout) || self.layout == 'labels'",
        message="contradicts labels",
        field="layout",
        holds=lambda source: source.labels is None or source.layout in (None, "labels"),
        hint="write layout: labels, or remove one of them",
    ),
)

DATASET_RULE = Rule(
    cel="!has(self.source.splits) || !(has(self.source.splits.validation)"
    " || has(self.source.splits.table)) || !has(self.validation)",
    message="contradicts source.splits, which names validation images",
    field="validation",
    holds=lambda dataset: (
        dataset.source.splits is None
        or not dataset.source.splits.validates
        or dataset.validation is None
    ),
    hint="remove validation, or source.splits.validation",
)
