"""`spec.dataset`: the images, their preparation, and the volume of the prepared dataset."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from imagenet_spec.frameworks import DEFAULT_FORMAT
from imagenet_spec.resource.base import DefaultWhenRead, Model, OneOf, Unit
from imagenet_spec.resource.fields import (
    SPLIT_DEFAULT,
    Count,
    Fraction,
    License,
    PositiveInt,
    RelativePath,
    Template,
    stays_below,
)
from imagenet_spec.resource.frameworks import Format
from imagenet_spec.resource.sources import DATASET_RULES, Source
from imagenet_spec.resource.sources.fields import BucketFolder
from imagenet_spec.resource.volumes import VolumeClaim
from imagenet_spec.rules import Rule

Words = Annotated[str, MinLen(1), MaxLen(200)]


class Split(Model):
    """Validation images that are drawn from the training images, by `preprocessing.seed`."""

    images_per_class: PositiveInt = SPLIT_DEFAULT
    """Validation images of each class."""


class Validation(Model):
    """The validation images: a `split`, or `path` in the source."""

    split: Split | None = None
    """Draw them from the training images."""

    path: RelativePath | None = None
    """A folder or archive of validation images in the source: class folders, or flat with `labels`,
    as ILSVRC2012_img_val.tar. A path on the claim of a volume, the name of a file of an http
    source, or a key (an archive with its suffix) or prefix of a bucket."""

    labels: RelativePath | None = None
    """The label file of `path`: lines of ``NAME CLASS``, or of ``CLASS`` in the order of the
    images' names, as in ILSVRC2012. Absent: the folders in `path` are the classes."""

    rules = (
        Rule(
            cel="has(self.split) != (has(self.path) || has(self.labels))",
            message="exactly one of split, path must be given",
            hint="write {split: {imagesPerClass: 50}}, {path: …} or {path: …, labels: …}",
        ),
        Rule(
            cel="has(self.path) || !has(self.labels)",
            message="labels need their images",
            hint="add path",
        ),
        stays_below("path"),
        stays_below("labels"),
    )


class Preprocessing(Model):
    """The preparation of the images. A `prepared` source without a volume uses only `format`."""

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

    class_words: Annotated[dict[str, Words], MinLen(1), MaxLen(1000)] | None = None
    """Words for classes, such as ``n01440764: tench``, up to 1000. They precede those of the file
    `classWords` of the source."""

    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    """The seed of the validation split and of the order of images."""

    max_skipped_fraction: Fraction = 0.001
    """The fraction of damaged images, and of validation images with labels of unknown classes,
    beyond which preparation fails."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the pods of fetch, index, pack and seal."""


class Publish(OneOf):
    """Exactly one place to which the prepared dataset is uploaded."""

    s3: BucketFolder | None = None
    """A prefix of a bucket, from which `prepared.s3` reads it."""


class DatasetSpec(Model):
    """The dataset: its source and its preparation."""

    source: Source
    """The source of the images: exactly one kind."""

    validation: Validation | None = None
    """The validation images. Absent: those of the source, such as the folder ``val`` beside
    ``train``; without any, 50 images of each class."""

    preprocessing: Preprocessing = Preprocessing()
    """The preparation of the images."""

    volume: VolumeClaim | None = None
    """The volume of the prepared dataset, in ``datasets/KEY``. Required, except for a `prepared`
    source: with it and `preprocessing.resize`, a dataset of smaller images is made there."""

    publish: Publish | None = None
    """Upload the prepared dataset while training runs. A failure sets the condition
    DatasetPublished to False with its reason, and does not fail the job."""

    license: License | None = None
    """The licence of the images, such as ``CC BY 4.0``, as the model card gives it."""

    verify: Annotated[Literal["Lengths", "Checksums"], DefaultWhenRead()] = "Lengths"
    """What is compared before training on a dataset that was sealed before, also a `prepared` one:
    the lengths of its shards, or their checksums too, for which the seal Job reads every byte. A
    damaged shard fails the job, which names it."""

    rules = DATASET_RULES

    @property
    def is_sealed(self) -> bool:
        """Whether training reads the source as it is: a sealed dataset that stays as large."""
        return self.source.fields.is_sealed and self.volume is None

    @property
    def sealed_path(self) -> str | None:
        """The folder of such a dataset on the claim of the source. None: it is not there."""
        return self.source.fields.sealed_path if self.is_sealed else None

    @property
    def publish_url(self) -> str | None:
        """The address to which the dataset is uploaded."""
        folder = None if self.publish is None else self.publish.s3
        return None if folder is None else folder.url
