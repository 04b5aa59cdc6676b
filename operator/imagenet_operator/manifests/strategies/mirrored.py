"""The strategy `mirrored`: TensorFlow's MirroredStrategy in one worker without peers."""

from __future__ import annotations

from imagenet_operator.manifests import worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.resource import ImageNetJob


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the only member of an attempt."""
    return [Replicas.alike(worker.program(job, settings), 1)]
