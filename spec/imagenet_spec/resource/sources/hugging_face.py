"""The source `huggingFace`: a dataset at a revision, read in place or from a cache."""

from __future__ import annotations

from typing import Annotated

from annotated_types import MaxLen

from imagenet_spec.resource.fields import (
    ENDPOINT_RULE,
    PositiveInt,
    RelativePath,
    SecretName,
    Text,
    matches,
    stays_below,
)
from imagenet_spec.resource.sources.fields import RemoteSource, needs_volume, validates_by_split

_DATASET = "^([A-Za-z0-9][-A-Za-z0-9._]*/)?[A-Za-z0-9_][-A-Za-z0-9._]*$"
_REVISION = "^[A-Za-z0-9][-A-Za-z0-9._/]*$"


class HuggingFaceSource(RemoteSource):
    """Parquet files of a dataset of Hugging Face, or one tar or zip, in place or in a `cache`."""

    dataset: Annotated[str, MaxLen(200)]
    """The name of the dataset, such as ``ILSVRC/imagenet-1k``."""

    revision: Annotated[str, MaxLen(200)] | None = None
    """A branch, tag or commit. Preparation reads the commit that it has at the beginning. Absent:
    the default branch."""

    path: RelativePath | None = None
    """A file or folder of the dataset, such as ``data``. Absent: all of it. Files named after
    validation validate, others train."""

    endpoint: Text | None = None
    """The URL of the server. Absent: https://huggingface.co."""

    secret_name: SecretName | None = None
    """A Secret with the key ``HF_TOKEN``. Absent: the dataset is public."""

    max_requests: PositiveInt | None = None
    """The most requests that listing the images and reading them may take. It is compared with an
    estimate before an archive is listed, and with the plan before any image is packed. Absent:
    4,000,000. A `cache` has no limit."""

    rules = (
        matches(
            "dataset",
            _DATASET,
            message="must be the name of a dataset",
            hint="write OWNER/NAME, as in the address of its page",
            is_optional=False,
        ),
        matches(
            "revision",
            _REVISION,
            message="must be a branch, tag or commit",
            hint="write a name such as main, or a commit",
        ),
        stays_below("path"),
        ENDPOINT_RULE,
    )

    dataset_rules = (needs_volume("huggingFace", "200Gi"), validates_by_split("huggingFace"))

    @property
    def secret(self) -> str | None:
        return self.secret_name
