"""Where images come from: one module a kind, each with its fields, checks and CEL rules.

A further kind adds its module and one field here. What it says of itself (`fields`) makes the
tables below, by which the rest of the operator knows it (docs/add-a-source.md).
"""

from __future__ import annotations

from imagenet_spec.program.sources import Layout
from imagenet_spec.resource.base import OneOf
from imagenet_spec.resource.sources import layout as layouts
from imagenet_spec.resource.sources.fields import SourceFields
from imagenet_spec.resource.sources.http import HttpSource
from imagenet_spec.resource.sources.hugging_face import HuggingFaceSource
from imagenet_spec.resource.sources.kaggle import KaggleSource
from imagenet_spec.resource.sources.layout import ClassLevel, Labels, Splits
from imagenet_spec.resource.sources.prepared import PreparedSource
from imagenet_spec.resource.sources.s3 import S3Source
from imagenet_spec.resource.sources.synthetic import SyntheticSource
from imagenet_spec.resource.sources.volume import VolumeSource
from imagenet_spec.rules import Rule

__all__ = ["DATASET_RULES", "SOURCES", "Source", "SourceFields"]


class Source(OneOf):
    """Exactly one kind of source, and what its listing leaves open."""

    beside = ("layout", "splits", "labels", "class_level")

    volume: VolumeSource | None = None
    """A raw archive or folder on a claim."""

    prepared: PreparedSource | None = None
    """A dataset that an earlier job sealed."""

    synthetic: SyntheticSource | None = None
    """Generated images."""

    http: HttpSource | None = None
    """A raw archive on a server."""

    s3: S3Source | None = None
    """A raw archive, or loose images, in a bucket."""

    hugging_face: HuggingFaceSource | None = None
    """A dataset of Hugging Face."""

    kaggle: KaggleSource | None = None
    """A competition or a dataset of Kaggle."""

    layout: Layout | None = None
    """How the images get their classes and splits. Absent: the whole listing decides, or the job is
    refused with the readings and the lines to write. ``status.dataset.decision`` says it."""

    splits: Splits | None = None
    """The images of each split, in place of names of folders such as train and val. Paths are from
    the source's root, or from pathInArchive."""

    labels: Labels | None = None
    """A table with the class of each image, or a pattern on their names, in place of folders."""

    class_level: ClassLevel | None = None
    """The level of the folders that are classes, below a split or the root. Absent: 1; images may
    lie deeper."""

    rules = layouts.RULES

    @property
    def fields(self) -> SourceFields:
        """The fields of the kind that is given; of no kind if none or several are."""
        (fields,) = self.given.values() if len(self.given) == 1 else (SourceFields(),)
        assert isinstance(fields, SourceFields)
        return fields


SOURCES: dict[str, type[SourceFields]] = Source.kinds()
"""A kind's name in a manifest → its fields."""

DATASET_RULES: tuple[Rule, ...] = (
    *(rule for fields in SOURCES.values() for rule in fields.dataset_rules),
    layouts.DATASET_RULE,
)
"""What kinds ask of the rest of `spec.dataset`."""
