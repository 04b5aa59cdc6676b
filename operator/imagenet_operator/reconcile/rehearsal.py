"""The rehearsal: build everything that a job will need before anything is created.

A template that cannot be merged into the workers' pods is told of at once, and not after hours of
preparation.
"""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import preview
from imagenet_operator.reconcile.types import Settings


def rehearse(job: ImageNetJob, settings: Settings) -> None:
    """Build every manifest once and throw it away.

    Raises:
        InvalidTemplate: A template has no meaning, or overrides what is the operator's.
        InvalidJob: The job cannot be built for another reason.
    """
    preview.everything(job, settings.manifests)
