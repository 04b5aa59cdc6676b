"""The resource as a whole: ImageNetJob, group imagenet.dev, version v1alpha1."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field

from imagenet_operator.api import compatibility, elastic_workers, sharing
from imagenet_operator.api.base import Model, Rule, TransitionRule
from imagenet_operator.api.dataset import DatasetSpec
from imagenet_operator.api.fields import Time
from imagenet_operator.api.immutability import IMMUTABILITY
from imagenet_operator.api.names import DNS_LABEL, JOB_NAME_MAXIMUM
from imagenet_operator.api.run_policy import RunPolicy
from imagenet_operator.api.size import GROWTH, SIZE
from imagenet_operator.api.sources import remote
from imagenet_operator.api.status import Status
from imagenet_operator.api.training import TrainingSpec

GROUP = "imagenet.dev"
VERSION = "v1alpha1"
KIND = "ImageNetJob"


class ObjectMeta(Model):
    """Every field of Kubernetes' ``meta/v1`` ObjectMeta, so that an unknown one is an error."""

    name: str = ""
    generate_name: str | None = None
    namespace: str = "default"
    uid: str = ""
    resource_version: str | None = None
    generation: int = 1
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    self_link: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[dict[str, Any], ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()

    @property
    def final_name(self) -> str:
        """The name, or one like that which the API server will generate (five characters more)."""
        return self.name or (f"{self.generate_name}xxxxx" if self.generate_name else "")


class ImageNetJobSpec(Model):
    """The desired state: a dataset, and a network that is trained on it."""

    dataset: DatasetSpec
    """The images, and their preparation."""

    training: TrainingSpec
    """The network, and the pods that train it."""

    run_policy: RunPolicy = RunPolicy()
    """Clean-up, deadlines and limits."""

    rules = (*compatibility.rules(), *sharing.RULES, *remote.RULES)

    @property
    def schedule_timeout_seconds(self) -> int:
        """The time in which all members of an attempt must be bound."""
        if elastic_workers.is_elastic(self.training):
            return elastic_workers.policy(self.training).wait_seconds
        return self.run_policy.scheduling_policy.schedule_timeout_seconds


class ImageNetJob(Model):
    """One job: prepares an image archive, and trains a network on several workers."""

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

    rules = (
        Rule(
            cel=f"self.metadata.name.size() <= {JOB_NAME_MAXIMUM}",
            message=f"must have at most {JOB_NAME_MAXIMUM} characters, because its pods' names "
            "are longer",
            field="metadata.name",
            holds=lambda job: len(job.metadata.final_name) <= JOB_NAME_MAXIMUM,
            explain=lambda job: (
                f"has {len(job.metadata.final_name)} characters, which leaves no room for the"
                " names of its pods",
                f"write at most {JOB_NAME_MAXIMUM}",
            ),
        ),
        Rule(
            cel=f"self.metadata.name.matches('{DNS_LABEL}')",
            message="must be a DNS-1035 label: a-z, 0-9 and -, a letter first, no - last",
            field="metadata.name",
            holds=lambda job: re.fullmatch(DNS_LABEL, job.metadata.final_name) is not None,
            explain=lambda job: (
                f"{job.metadata.final_name!r} is not a DNS-1035 label",
                "write a-z, 0-9 and -, with a letter first and no - last",
            ),
        ),
        SIZE,
    )

    transition_rules: ClassVar[tuple[TransitionRule, ...]] = (*IMMUTABILITY, GROWTH)
    """Rules for updates, which need both spec and status."""
