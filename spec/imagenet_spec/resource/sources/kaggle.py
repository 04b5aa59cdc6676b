"""The source `kaggle`: a competition or dataset of Kaggle, read in place or from a cache."""

from __future__ import annotations

from typing import Annotated

from annotated_types import MaxLen

from imagenet_spec.resource.base import DefaultWhenRead
from imagenet_spec.resource.fields import (
    ENDPOINT_RULE,
    PositiveInt,
    RelativePath,
    SecretName,
    Text,
    matches,
    stays_below,
)
from imagenet_spec.resource.sources.fields import (
    RemoteSource,
    needs_volume,
    validates_by_split,
)
from imagenet_spec.rules import Rule

_NAME = "[A-Za-z0-9][-A-Za-z0-9_]*"
_COMPETITION = f"^{_NAME}$"
_DATASET = f"^{_NAME}/{_NAME}$"


class KaggleSource(RemoteSource):
    """The zip of a competition or dataset, or one file of it, in place or stored in a `cache`."""

    competition: Annotated[str, MaxLen(200)] | None = None
    """The name of a competition, such as ``imagenet-object-localization-challenge``. The user of
    the key must have accepted its rules."""

    dataset: Annotated[str, MaxLen(200)] | None = None
    """The name of a dataset, with that of its owner: OWNER/NAME."""

    version: PositiveInt | None = None
    """The version of the dataset. Absent: the newest one at the beginning of the preparation."""

    file: RelativePath | None = None
    """The path of one file: a tar, a zip or a Parquet file. Absent: the zip of all files."""

    path_in_archive: RelativePath | None = None
    """The folder or archive in the archive that holds the classes, such as ``train``; by default
    the folder that holds all of them. A folder with training and validation images has both."""

    read_annotations: Annotated[bool, DefaultWhenRead()] = False
    """Whether the bounding boxes beside the images are read. The source must be a tree as
    Kaggle's, with ``Annotations/CLS-LOC`` beside ``Data/CLS-LOC``."""

    endpoint: Text | None = None
    """The URL of the server. Absent: https://www.kaggle.com."""

    secret_name: SecretName | None = None
    """A Secret with the key ``KAGGLE_API_TOKEN``, or with the keys ``username`` and ``key`` of
    kaggle.json. Absent: the dataset is public."""

    max_requests: PositiveInt | None = None
    """The most requests that listing the images and reading them may take. It is compared with an
    estimate before an archive is listed, and with the plan before any image is packed. Absent:
    4,000,000. A `cache` has no limit."""

    rules = (
        Rule(
            cel="has(self.competition) != has(self.dataset)",
            message="exactly one of competition, dataset must be given",
            hint="write competition: NAME, or dataset: OWNER/NAME",
        ),
        matches(
            "competition",
            _COMPETITION,
            message="must be the name of a competition",
            hint="write the last part of the address of its page",
        ),
        matches(
            "dataset",
            _DATASET,
            message="must be the name of a dataset",
            hint="write OWNER/NAME, as in the address of its page",
        ),
        Rule(
            cel="has(self.dataset) || !has(self.version)",
            message="needs a dataset: a competition has no versions",
            field="version",
            hint="remove it",
        ),
        Rule(
            cel="has(self.secretName) || !has(self.competition)",
            message="must be given: a competition is open only to those who accepted its rules",
            field="secretName",
            hint="write the name of a Secret with the key KAGGLE_API_TOKEN",
        ),
        stays_below("file"),
        stays_below("pathInArchive"),
        ENDPOINT_RULE,
    )

    dataset_rules = (needs_volume("kaggle", "250Gi"), validates_by_split("kaggle"))

    @property
    def secret(self) -> str | None:
        return self.secret_name
