"""`status`: what the operator reports. Only the decisions set it, once in each reconcile."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import MaxLen
from pydantic import Field

from imagenet_operator.api.base import MapList, Model, Unit
from imagenet_operator.api.fields import (
    Count,
    Fraction,
    LongCount,
    Message,
    ObjectName,
    Speed,
    Text,
    Time,
)

ConditionType = Literal[
    "Created", "DatasetReady", "Running", "Restarting", "Suspended", "Succeeded", "Failed"
]
Phase = Literal[
    "Created",
    "Preparing",
    "Starting",
    "Running",
    "Restarting",
    "Suspended",
    "Succeeded",
    "Failed",
]
Role = Literal["scheduler", "server", "rendezvous", "worker"]


class Condition(Model):
    """A condition of the job, as ``meta/v1`` Condition."""

    type: ConditionType
    """The condition. Suspended is True once the job has no pods."""

    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds."""

    reason: Annotated[str, MaxLen(1024)]
    """The reason: one CamelCase word, for programs."""

    message: Message = ""
    """The reason in words."""

    last_transition_time: Time
    """The time of the last change of `status`."""

    observed_generation: LongCount | None = None
    """The generation of the job for which it was set."""


class ImageCounts(Model):
    """Images of a dataset."""

    train: LongCount = 0
    """Training images."""

    validation: LongCount = 0
    """Validation images."""


class DatasetStatus(Model):
    """The prepared dataset."""

    key: Text
    """The hash of all that determines the dataset's bytes; its folder is ``datasets/KEY``."""

    classes: LongCount
    """Classes in the dataset."""

    images: ImageCounts
    """Images in the dataset."""

    shards: LongCount
    """Shards of both splits together."""

    dropped_classes: LongCount = 0
    """Classes that were dropped for too few images."""

    skipped_images: LongCount = 0
    """Damaged images that were skipped; skipped.jsonl in the dataset's folder lists them."""

    unknown_labels: LongCount | None = None
    """Validation images that were left out because their label names a class that the training
    images lack; dataset.json names the classes."""

    passed_over: Annotated[dict[str, LongCount], MaxLen(32)] | None = None
    """Files of the source that are no images, by suffix."""

    sealed: bool = False
    """Whether the dataset is complete."""

    @property
    def left_out(self) -> str:
        """What the dataset lacks of its source, in words; empty if nothing."""
        others = self.passed_over or {}
        suffixes = ", ".join(f"{suffix} {count:,}" for suffix, count in others.items())
        unknown = self.unknown_labels or 0
        of_unknown = "of an unknown class" if unknown == 1 else "of unknown classes"
        kinds = (
            (self.dropped_classes, "class", "classes", " with too few images"),
            (self.skipped_images, "damaged image", "damaged images", ""),
            (unknown, "validation image", "validation images", f" {of_unknown}"),
            (sum(others.values()), "other file", "other files", f" ({suffixes})"),
        )
        return ", ".join(
            f"{count:,} {one if count == 1 else many}{more}"
            for count, one, many, more in kinds
            if count
        )


class MemberStatus(Model):
    """One pod of an attempt. Terminal states are recorded here before the pod is deleted."""

    name: Text
    """The pod's name."""

    uid: Annotated[str, MaxLen(64)] | None = None
    """The pod's UID, once it has been seen."""

    role: Role
    """The member's role."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    """The pod's phase; Unknown for one that vanished before its end was seen."""

    exit_code: int | None = None
    """The main container's exit code."""

    reason: Annotated[str, MaxLen(1024)] | None = None
    """Why it ended: the reason of Kubernetes."""

    message: Message | None = None
    """The end of its termination message."""

    node: Annotated[str, MaxLen(253)] | None = None
    """The node on which it ran."""

    started_at: Time | None = None
    """When its container started."""

    finished_at: Time | None = None
    """When its container ended."""


class ReplicaStatus(Model):
    """The members of one role, counted as in Kubeflow."""

    active: Count = 0
    """Pending and running members."""

    succeeded: Count = 0
    """Succeeded members."""

    failed: Count = 0
    """Failed members."""


class Accuracy(Model):
    """Top-1 accuracy, as the member of rank 0 reports it."""

    train: Fraction | None = None
    """The accuracy on the training images of the epoch so far."""

    validation: Fraction | None = None
    """The accuracy on all validation images, after the last complete epoch."""


class Clock(Model):
    """The time that counts towards a deadline, without pauses."""

    seconds: LongCount = 0
    """The time before `since`."""

    since: Time | None = None
    """When the clock was last started; absent while it is stopped."""


class AttemptOutcome(Model):
    """The end of an attempt without success."""

    time: Time
    """When the end was decided."""

    reason: Annotated[str, MaxLen(1024)]
    """Why, in one CamelCase word."""

    message: Message = ""
    """The reason in words."""

    charged: bool = False
    """Whether it counts towards `backoffLimit`."""


class TrainingFigures(Model):
    """The figures of an attempt; `api.figures` defines each."""

    epoch: LongCount | None = None
    """The current epoch, from 0."""

    images_per_second: Speed | None = None
    """The sum over all workers. After success it is that of the whole attempt, without
    evaluations and checkpoints."""

    accuracy: Accuracy | None = None
    """The last known accuracy."""

    estimated_remaining_seconds: Annotated[LongCount, Unit("seconds")] | None = None
    """The estimated remaining time, at the current speed."""

    data_wait_share: Fraction | None = None
    """The fraction of the workers' time spent waiting for data, since the previous sample."""


class TrainingStatus(TrainingFigures):
    """The current attempt, or the last."""

    attempt: LongCount = 0
    """The attempt's number; its pods are named ``NAME-rATTEMPT-ROLE-INDEX``."""

    start_time: Time | None = None
    """When the attempt's pods were created."""

    schedulable_time: Time | None = None
    """When the scheduler was allowed to bind them: with gang Wait, when the gates were removed."""

    bound_time: Time | None = None
    """When all of them were first seen bound to nodes."""

    running_time: Time | None = None
    """When all of them were first seen running."""

    clock: Clock = Clock()
    """The time in which all members ran, over all attempts; for `activeDeadlineSeconds`."""

    outcome: AttemptOutcome | None = None
    """The end of the attempt, if it ended without success."""

    members: Annotated[tuple[MemberStatus, ...], MaxLen(20_001), MapList("name")] = ()
    """The attempt's pods."""

    replica_statuses: Annotated[dict[str, ReplicaStatus], MaxLen(8)] = Field(default_factory=dict)
    """The attempt's pods, counted by role."""

    last_progress_time: Time | None = None
    """When training last progressed."""

    next_attempt_time: Time | None = None
    """When the next attempt starts, while the job waits for it."""


class Status(Model):
    """The status of the job."""

    conditions: Annotated[tuple[Condition, ...], MaxLen(16), MapList("type")] = ()
    """The conditions of the job, one of each type."""

    phase: Phase | None = None
    """A summary of the conditions in one word."""

    start_time: Time | None = None
    """When the operator accepted the job."""

    completion_time: Time | None = None
    """When the job succeeded or failed."""

    observed_generation: LongCount | None = None
    """The generation of the job that this status describes."""

    dataset: DatasetStatus | None = None
    """The prepared dataset, once its images are listed."""

    single_node_claims: Annotated[tuple[ObjectName, ...], MaxLen(4)] | None = None
    """Claims in `spec` without ReadWriteMany at the job's start, which only the pods of one node
    can use. Pods that use one share a node."""

    preparation: Clock | None = None
    """The time of the preparation; for `preparationDeadlineSeconds`."""

    training: TrainingStatus | None = None
    """The current attempt, or the last."""

    restarts: Count = 0
    """Restarts after a failure: they count towards `backoffLimit`."""

    disruptions: Count = 0
    """Restarts after a preemption, an eviction, or the loss of a node or pod. They have a separate
    limit. A gang without capacity does not count."""
