"""The resource as a whole: ImageNetJob, group imagenet.dev, version v1alpha1."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le
from pydantic import Field

from imagenet_operator.api import compatibility, elastic_workers
from imagenet_operator.api.base import DefaultWhenRead, Model, Rule, TransitionRule, Unit
from imagenet_operator.api.dataset import DatasetSpec
from imagenet_operator.api.fields import (
    DNS_LABEL,
    INT32_MAXIMUM,
    JOB_NAME_MAXIMUM,
    Count,
    Manager,
    Seconds,
    Time,
)
from imagenet_operator.api.root_rules import GROWTH, IMMUTABILITY, SIZE
from imagenet_operator.api.sources.prepared import REMOTE_RULES
from imagenet_operator.api.status import Status
from imagenet_operator.api.training import TrainingSpec
from imagenet_operator.api.volumes import SHARING_RULES

GROUP = "imagenet.dev"
VERSION = "v1alpha1"
KIND = "ImageNetJob"
MANAGER = "imagenet.dev/imagenet-operator"
"""The value of `managedBy` for this project's operator, which is also the default."""


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


class SchedulingPolicy(Model):
    """Gang scheduling: all members of an attempt get nodes, or none keeps one."""

    gang: Literal["Timeout", "Wait"] = "Timeout"
    """Timeout withdraws an attempt that is not bound in time, without a charge, and tries again
    later. Wait holds its pods by a scheduling gate until all of them fit."""

    schedule_timeout_seconds: Seconds = 600
    """The time in which all members of an attempt must be bound, with Timeout."""


# The names are those of Kubeflow's runPolicy, if it has the field.
class RunPolicy(Model):
    """The policies for a job and its pods."""

    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """The pods that are deleted when the job ends. None also keeps the failed pods of an attempt
    until the next attempt fails."""

    ttl_seconds_after_finished: Annotated[int, Ge(0), Le(INT32_MAXIMUM), Unit("seconds")] | None = (
        None
    )
    """The time from the job's end to its deletion. Absent: it is not deleted."""

    active_deadline_seconds: Seconds | None = None
    """The longest time of training, over all attempts. Preparation, suspension, and waits
    for nodes or for a restart do not count."""

    preparation_deadline_seconds: Seconds | None = None
    """The longest time of the preparation. Suspension does not count."""

    start_deadline_seconds: Annotated[Seconds, DefaultWhenRead()] = 600
    """The time after which a job fails that cannot start because of an image or the configuration
    of its pods: a missing image, an invalid name, a missing Secret. It counts from the first such
    error and ends when the error does. A slow pull does not count."""

    progress_deadline_seconds: Seconds = 1800
    """The time without progress after which an attempt fails. It ends hangs in which every pod
    runs. It does not apply to an attempt whose metrics could never be read."""

    backoff_limit: Count = 6
    """The number of restarts after failed attempts before the job fails. Preemption, eviction and
    node loss do not count."""

    suspend: bool = False
    """Stops the job and frees its nodes, until it is false again."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    """Gang scheduling."""

    retention_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether the claims that the operator created outlive the job."""

    managed_by: Manager | None = None
    """The manager of the job: absent or ``imagenet.dev/imagenet-operator`` for this operator. It
    ignores jobs with any other manager. Never changes."""


class ImageNetJobSpec(Model):
    """The desired state: a dataset, and a network that is trained on it."""

    dataset: DatasetSpec
    """The images, and their preparation."""

    training: TrainingSpec
    """The network, and the pods that train it."""

    run_policy: RunPolicy = RunPolicy()
    """Clean-up, deadlines and limits."""

    rules = (*compatibility.rules(), *SHARING_RULES, *REMOTE_RULES)

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
