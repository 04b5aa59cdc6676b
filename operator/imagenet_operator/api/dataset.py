"""`spec.dataset`: the images, their preparation, and the volume of the prepared dataset."""

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
    """Validation images that are drawn from the training images, by `preprocessing.seed`."""

    images_per_class: PositiveInt = SPLIT_DEFAULT
    """Validation images of each class."""


class Validation(Model):
    """The validation images: a `split`, or `path` and `labels` in the source."""

    split: Split | None = None
    """Draw them from the training images."""

    path: RelativePath | None = None
    """A flat tar or folder of validation images on the source's claim, as
    ILSVRC2012_img_val.tar."""

    labels: RelativePath | None = None
    """The label file of `path`: lines of ``NAME CLASS``, or of ``CLASS`` in the order of the
    images' names, as in ILSVRC2012."""

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
            message="path and labels must be given together",
            holds=lambda validation: (validation.path is None) == (validation.labels is None),
            hint="add the other",
        ),
        stays_below("path"),
        stays_below("labels"),
    )


class Preprocessing(Model):
    """The preparation of the images. A `prepared` source uses only `format`."""

    format: Format = DEFAULT_FORMAT
    """The format of the prepared dataset: RecordIO for MXNet, TFRecord for TensorFlow."""

    resize: Annotated[int, Ge(1), Le(8192), Unit("pixels")] | None = None
    """The length of an image's shorter edge. Absent: images are not resized, and RGB JPEGs are
    copied unchanged."""

    quality: Annotated[int, Ge(1), Le(100)] = 90
    """JPEG quality of re-encoded images."""

    shards: Annotated[int, Ge(1), Le(10_000)] = 8
    """The number of training shards, one completion of the pack Job each. Validation shards are
    added in proportion."""

    parallelism: Annotated[int, Ge(1), Le(10_000)] = 8
    """Pods of the pack Job that run at the same time."""

    min_images_per_class: Count = 500
    """Classes with fewer images than this are dropped."""

    expected_classes: Annotated[int, Ge(1), Le(1_000_000)] | None = None
    """The number of classes that the dataset must have, without the dropped ones. If it has another
    number, preparation fails and lists the classes."""

    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    """The seed of the validation split and of the order of images."""

    max_skipped_fraction: Fraction = 0.001
    """The fraction of damaged images, and of validation images with labels of unknown classes,
    beyond which preparation fails."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the pods of index, pack and seal."""


class DatasetSpec(Model):
    """The dataset: its source and its preparation."""

    source: Source
    """The source of the images: exactly one kind."""

    validation: Validation | None = None
    """The validation images. Absent: 50 images of each class."""

    preprocessing: Preprocessing = Preprocessing()
    """The preparation of the images."""

    volume: VolumeClaim | None = None
    """The volume of the prepared dataset, in ``datasets/KEY``. Required, except for a `prepared`
    source."""

    rules = DATASET_RULES
