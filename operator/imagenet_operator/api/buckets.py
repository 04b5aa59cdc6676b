"""A folder in a bucket with an S3 API: where a prepared dataset is read from or written to."""

from __future__ import annotations

from typing import Annotated

from annotated_types import MaxLen
from pydantic import Field

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import (
    BUCKET_NAME,
    ENDPOINT_RULE,
    RelativePath,
    SecretName,
    Text,
    given_options,
    matches,
    stays_below,
)

BucketName = Annotated[str, MaxLen(63), Field(pattern=BUCKET_NAME)]
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
    """The prefix of the dataset's files, such as ``datasets/imagenet``."""

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
        """The address for the programs."""
        return f"s3://{self.bucket}/{self.prefix}"

    def api_arguments(self, endpoint: str, region: str) -> list[str]:
        """Return the arguments for the S3 API, by the names of their options."""
        return given_options({endpoint: self.endpoint, region: self.region})
