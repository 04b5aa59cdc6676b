"""Everything that a job will ever need, in the order of its creation.

For whoever has to see all of it before anything ran: `imagenetctl render`, and checks that a job
can be built or run at all. What only `index` finds out is a stand-in, unless it is given.
"""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.base import Manifest
from imagenet_operator.api.status import DatasetStatus, ImageCounts
from imagenet_operator.manifests import attempt as attempts
from imagenet_operator.manifests import dataset, protection, volumes
from imagenet_operator.manifests.settings import DEFAULTS, Settings

PLACEHOLDER_KEY = "KEY-FROM-INDEX"


def placeholder_status(
    job: ImageNetJob, key: str = PLACEHOLDER_KEY, shards: int | None = None
) -> DatasetStatus:
    """Return a dataset's status for a job whose images are not listed yet.

    Args:
        job: The job.
        key: The dataset's key.
        shards: Of training and validation; without it those of training, which the job says.
    """
    planned = shards or job.spec.dataset.preprocessing.shards
    return DatasetStatus(key=key, classes=0, images=ImageCounts(), shards=planned)


def everything(
    job: ImageNetJob,
    settings: Settings = DEFAULTS,
    status: DatasetStatus | None = None,
    attempt: int = 0,
) -> list[Manifest]:
    """Return the claims, the preparation's Jobs, and one attempt, each behind its protection.

    Args:
        job: The job; what its own status says of the dataset is not used.
        settings: The operator's configuration.
        status: What index returns; a stand-in if it is not given.
        attempt: Which attempt.

    Raises:
        InvalidTemplate: A template has no meaning, or overrides what is the operator's.
    """
    known = status or placeholder_status(job)
    preparation = (
        [
            *protection.of_preparation(job, settings),
            dataset.index_job(job, settings),
            dataset.pack_job(job, known, settings),
            dataset.seal_job(job, known, settings),
        ]
        if job.spec.dataset.source.fields.sealed_path is None
        else []
    )
    listed = job.model_copy(update={"status": job.status.model_copy(update={"dataset": known})})
    return [*volumes.claims(job), *preparation, *attempts.build(listed, attempt, settings)]
