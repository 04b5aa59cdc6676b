"""What every kind of source says of itself: the class that each kind's fields extend.

Fields that several kinds have, a folder in a bucket and the cache of sources on servers, are here
too.

The rest of the operator asks it and no kind by name. So another kind is one module and one field of
the union (docs/add-a-source.md).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Ge, Le, MaxLen

from imagenet_spec.resource.base import Model, OneOf
from imagenet_spec.resource.fields import (
    ENDPOINT_RULE,
    BucketName,
    ObjectName,
    RelativePath,
    SecretName,
    Text,
    matches,
    stays_below,
)
from imagenet_spec.rules import Rule


class SourceFields(Model):
    """The fields of one kind of source. Those of the class itself are for the rest."""

    dataset_rules: ClassVar[tuple[Rule, ...]] = ()
    """What it asks of the rest of `spec.dataset`, the place of these rules."""

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim to read from. None: no claim."""
        return None

    @property
    def claim_field(self) -> str:
        """The field that names `claim`."""
        return "claimName"

    @property
    def is_fetched(self) -> bool:
        """Whether a Job stores the images on `claim` before index; only that one has the Secret."""
        return False

    @property
    def secret(self) -> str | None:
        """The Secret of fetch, index and pack, or of workers with a `remote_url`. None: none."""
        return None

    @property
    def sealed_path(self) -> str | None:
        """The folder of a sealed dataset on `claim`. None: no sealed dataset is there."""
        return None

    @property
    def is_sealed(self) -> bool:
        """Whether the source is a sealed dataset, which needs no preparation without a volume."""
        return False

    @property
    def remote_url(self) -> str | None:
        """The address of a sealed dataset that workers read without a volume. None: they do not."""
        return None

    @property
    def remote_options(self) -> dict[str, str | None]:
        """The values of options by which workers open `remote_url`, besides the address."""
        return {}

    @property
    def shorter_edge(self) -> tuple[str, int] | None:
        """The field that gives the shorter edge of all images, and its pixels. None: unknown."""
        return None


class Cache(Model):
    """The place of the source's files; one cache may hold those of several jobs."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the files, in the folder ``fetched``. They outlive the
    job, and other jobs with the same source read them."""

    connections: Annotated[int, Ge(1), Le(32)] | None = None
    """The most requests of fetch at the same time. Absent: 8."""


class RemoteSource(SourceFields):
    """The fields of a source on a server."""

    cache: Cache | None = None
    """Store the files on a claim before they are listed: for Parquet files, an archive with too
    many images for `maxRequests`, a compressed one, or a server without ranges of bytes. Absent:
    the files are read in place."""

    @property
    def claim(self) -> str | None:
        return None if self.cache is None else self.cache.claim_name

    @property
    def claim_field(self) -> str:
        return "cache.claimName"

    @property
    def is_fetched(self) -> bool:
        return self.cache is not None


Region = Annotated[str, MaxLen(64)]

ADDRESS_RULES = (
    ENDPOINT_RULE,
    matches(
        "region",
        "^[a-z0-9-]+$",
        message="must be of a-z, 0-9 and -",
        hint="write a region such as eu-central-1",
    ),
)
"""The rules for the fields `endpoint` and `region`."""


class BucketFolder(Model):
    """A prefix of a bucket with any S3 API."""

    bucket: BucketName
    """The name of the bucket."""

    prefix: RelativePath
    """The prefix of the files, such as ``datasets/imagenet``."""

    endpoint: Text | None = None
    """The URL of the S3 API. Absent: that of AWS."""

    region: Region | None = None
    """The region of the bucket. Absent: us-east-1, which most other APIs ignore."""

    secret_name: SecretName | None = None
    """A Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and optionally
    ``AWS_SESSION_TOKEN``. Absent: requests have no signature."""

    rules = (stays_below("prefix"), *ADDRESS_RULES)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


class UploadedResults(OneOf):
    """Exactly one place to which another job has uploaded its results."""

    s3: BucketFolder | None = None
    """A prefix of a bucket: the folder of the job, of an attempt as in its ``status.model``, or of
    a checkpoint."""


def needs_volume(kind: str, size: str) -> Rule:
    """Return the rule that a kind needs preparation, so its dataset needs a volume.

    `size` is a volume's, for the hint.
    """
    return Rule(
        cel=f"!has(self.source.{kind}) || has(self.volume)",
        message="must be given: the prepared dataset needs a place",
        field="volume",
        hint=f"write {{claimName: …}} or {{size: {size}}}",
    )


def validates_by_split(kind: str) -> Rule:
    """Return the rule that a kind has no validation images apart from its classes."""
    return Rule(
        cel=f"!has(self.source.{kind}) || !has(self.validation) || has(self.validation.split)",
        message=f"of a {kind} source must be a split: there is no label file",
        field="validation",
        hint="write {split: {imagesPerClass: 50}}",
    )
