"""The source `s3`: archives or loose images in a bucket, read in place or from a cache."""

from __future__ import annotations

from typing import Annotated

from annotated_types import MaxLen, MinLen

from imagenet_spec.resource.base import DefaultWhenRead
from imagenet_spec.resource.fields import (
    BucketName,
    Checksum,
    PositiveInt,
    RelativePath,
    SecretName,
    Text,
    all_differ,
    all_stay_below,
    stays_below,
)
from imagenet_spec.resource.sources.fields import (
    ADDRESS_RULES,
    Region,
    RemoteSource,
    needs_volume,
)
from imagenet_spec.rules import Rule

_ARCHIVE = "[.](tar|zip|parquet|tgz|tar[.](gz|bz2|xz|zst))$"


_VALIDATION_IS_AN_ARCHIVE = Rule(
    cel=(
        "!has(self.source.s3) || !has(self.source.s3.cache) || !has(self.validation)"
        f" || !has(self.validation.path) || self.validation.path.matches('{_ARCHIVE}')"
    ),
    message="must be an archive: a prefix is not stored in the cache",
    field="validation.path",
    hint="write a key with the suffix .tar, .tar.gz or .zip",
)


class S3Source(RemoteSource):
    """Objects of a bucket with any S3 API. They are read in place, or stored in a `cache`."""

    bucket: BucketName
    """The name of the bucket."""

    key: RelativePath | None = None
    """The key of a tar or zip of class archives, or of class folders. Or of a Parquet file."""

    keys: Annotated[tuple[RelativePath, ...], MinLen(1), MaxLen(1000)] | None = None
    """The keys of several archives: all tars or all zips, one for each class, or shards of
    WebDataset. Or of Parquet files. The last part of a key is the name of the archive; that of a
    class's archive without its suffix is the class. `prefix` needs no list."""

    prefix: RelativePath | None = None
    """The prefix of class folders, if each image is an object, such as ``ILSVRC/train``. Or of a
    tree with folders for training and validation, as torchvision's and Kaggle's. Or the prefix of
    archives as those of `keys`, without folders beside them; only these go into a `cache`."""

    path_in_archive: RelativePath | None = None
    """The folder or archive in the archive of `key` that holds the classes, such as ``train``; by
    default the folder that holds all of them."""

    endpoint: Text | None = None
    """The URL of the S3 API. Absent: that of AWS."""

    region: Region | None = None
    """The region of the bucket. Absent: us-east-1, which most other APIs ignore."""

    secret_name: SecretName | None = None
    """A Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and optionally
    ``AWS_SESSION_TOKEN``. Absent: the bucket is public."""

    class_words: RelativePath | None = None
    """The key of a file with words for the classes, such as ``tench`` for n01440764:
    LOC_synset_mapping.txt, words.txt, meta.mat, imagenet_class_index.json, or a JSON object."""

    bounding_boxes: Annotated[tuple[RelativePath, ...], MinLen(1), MaxLen(8)] | None = None
    """The keys of the tars with the annotations of the images, in the XML of Pascal VOC:
    ILSVRC2012_bbox_train_v2.tar.gz and ILSVRC2012_bbox_val_v3.tgz. Each image's boxes are in the
    dataset."""

    read_annotations: Annotated[bool, DefaultWhenRead()] = False
    """Whether the bounding boxes beside the images are read. The source must be a tree as
    Kaggle's, with ``Annotations/CLS-LOC`` beside ``Data/CLS-LOC``."""

    max_requests: PositiveInt | None = None
    """The most requests that listing the images and reading them may take. It is compared with an
    estimate before an archive is listed, and with the plan before any image is packed. Absent:
    4,000,000. A `cache` has no limit."""

    checksum: Checksum | None = None
    """The checksum of the archive of `key`, which is compared when it is stored in a `cache`."""

    rules = (
        Rule(
            cel="[has(self.key), has(self.keys), has(self.prefix)].exists_one(given, given)",
            message="exactly one of key, keys, prefix must be given",
            hint="write key for an archive, keys for several, or prefix for class folders",
        ),
        stays_below("key"),
        all_stay_below("keys"),
        stays_below("prefix"),
        stays_below("pathInArchive"),
        stays_below("classWords"),
        all_stay_below("boundingBoxes"),
        all_differ("boundingBoxes"),
        Rule(
            cel="has(self.key) || !has(self.pathInArchive)",
            message="needs an archive",
            field="pathInArchive",
            hint="remove it, or write a longer prefix",
        ),
        Rule(
            cel="has(self.cache) || !has(self.checksum)",
            message="needs a cache: without one, the archive is not read as a whole",
            field="checksum",
            hint="write cache: {claimName: …}, or remove it",
        ),
        *ADDRESS_RULES,
    )

    dataset_rules = (needs_volume("s3", "200Gi"), _VALIDATION_IS_AN_ARCHIVE)

    @property
    def secret(self) -> str | None:
        return self.secret_name
