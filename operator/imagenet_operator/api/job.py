"""The resource as a whole: ImageNetJob, group imagenet.dev, version v1alpha1."""

from __future__ import annotations

from typing import Literal

from imagenet_operator.api.base import Model
from imagenet_operator.api.dataset import DatasetSpec
from imagenet_operator.api.metadata import ObjectMeta
from imagenet_operator.api.run_policy import RunPolicy
from imagenet_operator.api.status import Status
from imagenet_operator.api.training import TrainingSpec

GROUP = "imagenet.dev"
VERSION = "v1alpha1"
KIND = "ImageNetJob"


class ImageNetJobSpec(Model):
    """What is wanted: a dataset, and a network trained on it."""

    dataset: DatasetSpec
    """Which images, and how they are prepared."""

    training: TrainingSpec
    """What is trained, and on what."""

    run_policy: RunPolicy = RunPolicy()
    """When pods go, when the job gives up."""


class ImageNetJob(Model):
    """One manifest that takes a raw image archive to a trained, distributed model."""

    api_version: Literal["imagenet.dev/v1alpha1"] = "imagenet.dev/v1alpha1"
    """The group and version of this resource."""

    kind: Literal["ImageNetJob"] = "ImageNetJob"
    """The kind of this resource."""

    metadata: ObjectMeta
    """The object's name, namespace, labels…"""

    spec: ImageNetJobSpec
    """What is wanted."""

    status: Status = Status()
    """What the operator reports."""
