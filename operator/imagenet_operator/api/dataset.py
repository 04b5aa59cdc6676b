"""`spec.dataset`: which images, how they are prepared, and where the prepared dataset lives."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from imagenet_operator.api.base import Model, Rule, Unit
from imagenet_operator.api.fields import (
    SPLIT_DEFAULT,
    Count,
    Fraction,
    PositiveInt,
    RelativePath,
    Template,
    stays_below,
)
from imagenet_operator.api.frameworks import DEFAULT_FORMAT, Format
from imagenet_operator.api.sources import DATASET_RULES, Source
from imagenet_operator.api.volumes import VolumeClaim


class Split(Model):
    """Validation images drawn from the source, by `preprocessing.seed`."""

    images_per_class: PositiveInt = SPLIT_DEFAULT
    """Images of each class that validate instead of train."""


class Validation(Model):
    """Where validation images come from: a `split`, or `path` and `labels` in the source."""

    split: Split | None = None
    """Draw them from the training classes."""

    path: RelativePath | None = None
    """A flat tar or folder of validation images on the source's claim, as
    ILSVRC2012_img_val.tar."""

    labels: RelativePath | None = None
    """The label file of `path`: lines of ``NAME CLASS``, or of ``CLASS`` in the order of the
    images' names, as ILSVRC2012's."""

    rules = (
        Rule(
            cel="has(self.split) != (has(self.path) || has(self.labels))",
            message="exactly one of split, path with labels must be given",
            holds=lambda validation: (
                (validation.split is not None)
                != (validation.path is not None or validation.labels is not None)
            ),
            hint="write {split: {imagesPerClass: 50}} or {path: …, labels: …}",
        ),
        Rule(
            cel="has(self.path) == has(self.labels)",
            message="path and labels belong together",
            holds=lambda validation: (validation.path is None) == (validation.labels is None),
            hint="add the other",
        ),
        stays_below("path"),
        stays_below("labels"),
    )


class Preprocessing(Model):
    """What becomes of the images. A `prepared` source ignores this, but for `format`."""

    format: Format = DEFAULT_FORMAT
    """The format of the prepared dataset: RecordIO for MXNet, TFRecord for TensorFlow."""

    resize: Annotated[int, Ge(1), Le(8192), Unit("pixels")] | None = None
    """The length of an image's shorter edge. Absent: images keep their size, and RGB JPEGs their
    bytes."""

    quality: Annotated[int, Ge(1), Le(100)] = 90
    """JPEG quality of images that are encoded again."""

    shards: Annotated[int, Ge(1), Le(10_000)] = 8
    """Files that the training images are packed into, one completion of the pack Job each.
    Validation images get shards of their own, in proportion."""

    parallelism: Annotated[int, Ge(1), Le(10_000)] = 8
    """Pods of the pack Job that run at a time."""

    min_images_per_class: Count = 500
    """Classes with fewer images than this are dropped."""

    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    """Decides the validation split and the order of images, and nothing else does."""

    max_skipped_fraction: Fraction = 0.001
    """The fraction of damaged images, and of validation images with labels of unknown classes,
    beyond which preparation fails."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the pods of index, pack and seal."""


class DatasetSpec(Model):
    """The way from images as they are found to a sealed dataset."""

    source: Source
    """Where the images come from: exactly one kind."""

    validation: Validation | None = None
    """Where validation images come from. Absent: 50 images of each class are split off."""

    preprocessing: Preprocessing = Preprocessing()
    """What becomes of the images on their way into the dataset."""

    volume: VolumeClaim | None = None
    """Where the prepared dataset is kept, under ``datasets/KEY``; every pod mounts it. Required,
    but for a `prepared` source."""

    rules = DATASET_RULES
