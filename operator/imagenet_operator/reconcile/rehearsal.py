"""The rehearsal: build everything that a job will need before anything is created.

A template that cannot be merged into the workers' pods is told of at once, and not after hours of
preparation.
"""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import DatasetStatus, ImageCounts
from imagenet_operator.manifests import attempt, dataset, volumes
from imagenet_operator.reconcile.types import Settings

_STAND_IN = DatasetStatus(key="0" * 64, classes=1, images=ImageCounts(train=1), shards=1)
"""A dataset that is only there to be named in arguments."""


def rehearse(job: ImageNetJob, settings: Settings) -> None:
    """Build every manifest once and throw it away.

    Raises:
        InvalidTemplate: A template has no meaning, or overrides what is the operator's.
        InvalidJob: The job cannot be built for another reason.
    """
    volumes.claims(job)
    if job.spec.dataset.source.prepared is None:
        dataset.index_job(job, settings.manifests)
        dataset.pack_job(job, _STAND_IN, settings.manifests)
        dataset.seal_job(job, _STAND_IN, settings.manifests)
    prepared = job.model_copy(
        update={"status": job.status.model_copy(update={"dataset": _STAND_IN})}
    )
    attempt.build(prepared, 0, settings.manifests)
