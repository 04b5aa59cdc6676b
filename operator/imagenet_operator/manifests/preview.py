"""All objects of a job, in the order of their creation, for `imagenetctl render` and dry runs.

Values that only `index` knows are placeholders, unless they are given.
"""

from __future__ import annotations

from imagenet_operator.manifests import attempt as attempts
from imagenet_operator.manifests import dataset, protection, volumes
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.dataset_status import DatasetStatus, ImageCounts

PLACEHOLDER_KEY = "KEY-FROM-INDEX"


def placeholder_status(
    job: ImageNetJob, key: str = PLACEHOLDER_KEY, shards: int | None = None
) -> DatasetStatus:
    """Return a dataset's status for a job whose images are not listed yet."""
    planned = shards or job.spec.dataset.preprocessing.shards
    return DatasetStatus(key=key, classes=0, images=ImageCounts(), shards=planned)


def everything(
    job: ImageNetJob,
    settings: Settings = DEFAULTS,
    status: DatasetStatus | None = None,
    attempt: int = 0,
) -> list[Manifest]:
    """Return the claims, the preparation's Jobs and one attempt, with their protection.

    The dataset in the job's own status is ignored; without `status`, a placeholder is in its place.

    Raises:
        InvalidTemplate: A template is invalid, or sets a field that the operator owns.
    """
    known = status or placeholder_status(job)
    source = job.spec.dataset.source.fields
    steps = []
    if not job.spec.dataset.is_sealed:
        steps = [
            *([dataset.fetch_job(job, settings)] if source.is_fetched else []),
            dataset.index_job(job, settings),
            dataset.pack_job(job, known, settings),
            dataset.seal_job(job, known, settings),
        ]
    elif job.spec.dataset.verify == "Checksums":
        steps = [dataset.verify_job(job, settings)]
    listed = job.model_copy(update={"status": job.status.model_copy(update={"dataset": known})})
    published = [] if job.spec.dataset.publish is None else [dataset.publish_job(listed, settings)]
    uploads = published
    if job.spec.training.upload is not None:
        uploads = [*published, dataset.upload_job(listed, attempt, settings)]
    protected = protection.of_preparation(job, settings) if steps or uploads else []
    return [
        *volumes.claims(job),
        *protected,
        *steps,
        *attempts.build(listed, attempt, settings),
        *uploads,
    ]
