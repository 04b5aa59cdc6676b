"""`status`: what the operator reports. Written once a reconcile, by the decisions alone."""

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
    """One statement about the job, in the form of ``meta/v1`` Condition."""

    type: ConditionType
    """What is stated. Suspended is True once no pod of the job is left."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    reason: Annotated[str, MaxLen(1024)]
    """Why, in one CamelCase word, for programs."""

    message: Message = ""
    """Why, for people."""

    last_transition_time: Time
    """When `status` last changed."""

    observed_generation: LongCount | None = None
    """The generation of the job that this was said of."""


class ImageCounts(Model):
    """Images of a dataset."""

    train: LongCount = 0
    """Images to train on."""

    validation: LongCount = 0
    """Images to validate on."""


class DatasetStatus(Model):
    """The prepared dataset."""

    key: Text
    """The hash of what decides the dataset's bytes; its folder is ``datasets/KEY``."""

    classes: LongCount
    """Classes in the dataset."""

    images: ImageCounts
    """Images in the dataset."""

    shards: LongCount
    """Shards of both splits together."""

    dropped_classes: LongCount = 0
    """Classes that had too few images."""

    skipped_images: LongCount = 0
    """Damaged images that were left out; skipped.jsonl in the dataset's folder names them."""

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
    """What the member does."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    """The pod's phase; Unknown for one that vanished before its end was seen."""

    exit_code: int | None = None
    """The main container's exit code."""

    reason: Annotated[str, MaxLen(1024)] | None = None
    """Why it ended, as Kubernetes says."""

    message: Message | None = None
    """The end of its termination message."""

    node: Annotated[str, MaxLen(253)] | None = None
    """The node that it ran on."""

    started_at: Time | None = None
    """When its container started."""

    finished_at: Time | None = None
    """When its container ended."""


class ReplicaStatus(Model):
    """Members of one role, counted as Kubeflow does."""

    active: Count = 0
    """Members that are pending or run."""

    succeeded: Count = 0
    """Members that ended well."""

    failed: Count = 0
    """Members that failed."""


class Accuracy(Model):
    """Top-1 accuracy, as the member of rank 0 reports it."""

    train: Fraction | None = None
    """On the training images of the epoch so far."""

    validation: Fraction | None = None
    """On all validation images, after the last whole epoch."""


class Clock(Model):
    """Time that counts towards a deadline, with the pauses left out."""

    seconds: LongCount = 0
    """What was counted before `since`."""

    since: Time | None = None
    """When the present stretch began; absent while the clock stands still."""


class AttemptOutcome(Model):
    """How an attempt ended, other than by success."""

    time: Time
    """When the end was decided."""

    reason: Annotated[str, MaxLen(1024)]
    """Why, in one CamelCase word."""

    message: Message = ""
    """Why, for people."""

    charged: bool = False
    """Whether it counts against `backoffLimit`."""


class TrainingFigures(Model):
    """The figures of an attempt; `api.figures` has where each comes from."""

    epoch: LongCount | None = None
    """The epoch that is being trained, from 0."""

    images_per_second: Speed | None = None
    """The sum over all workers: at present, and after success that of the whole attempt's
    training, without evaluations and checkpoints."""

    accuracy: Accuracy | None = None
    """The last known accuracy."""

    estimated_remaining_seconds: Annotated[LongCount, Unit("seconds")] | None = None
    """How long training will still take at the present speed."""

    data_wait_share: Fraction | None = None
    """The part of the workers' time, since they were last looked at, in which they waited for
    data."""


class TrainingStatus(TrainingFigures):
    """The current attempt, or the last."""

    attempt: LongCount = 0
    """The attempt's number; its pods are called ``NAME-rATTEMPT-ROLE-INDEX``."""

    start_time: Time | None = None
    """When the attempt's pods were created."""

    schedulable_time: Time | None = None
    """When the scheduler was free to bind them: with a gang that waits, when its gates were
    lifted."""

    bound_time: Time | None = None
    """When all of them were first seen bound to nodes."""

    running_time: Time | None = None
    """When all of them were first seen running."""

    clock: Clock = Clock()
    """Time that all members of an attempt ran, over all attempts; for `activeDeadlineSeconds`."""

    outcome: AttemptOutcome | None = None
    """How the attempt ended, once it has, other than by success."""

    members: Annotated[tuple[MemberStatus, ...], MaxLen(20_001), MapList("name")] = ()
    """The attempt's pods."""

    replica_statuses: Annotated[dict[str, ReplicaStatus], MaxLen(8)] = Field(default_factory=dict)
    """The attempt's pods, counted by role."""

    last_progress_time: Time | None = None
    """When training was last seen to advance."""

    next_attempt_time: Time | None = None
    """When the next attempt starts, while the job waits between two."""


class Status(Model):
    """What the operator knows of the job."""

    conditions: Annotated[tuple[Condition, ...], MaxLen(16), MapList("type")] = ()
    """Statements about the job, one of each type."""

    phase: Phase | None = None
    """The conditions in one word, for people."""

    start_time: Time | None = None
    """When the operator first acted for the job."""

    completion_time: Time | None = None
    """When the job succeeded or failed."""

    observed_generation: LongCount | None = None
    """The generation of the job that this status describes."""

    dataset: DatasetStatus | None = None
    """The prepared dataset, once its images are listed."""

    single_node_claims: Annotated[tuple[ObjectName, ...], MaxLen(4)] | None = None
    """Claims named in `spec` that the pods of one node only can use at a time, for lack of
    ReadWriteMany, as they were when the job started. Pods that use one share a node."""

    preparation: Clock | None = None
    """Time spent preparing the dataset; for `preparationDeadlineSeconds`."""

    training: TrainingStatus | None = None
    """The current attempt, or the last."""

    restarts: Count = 0
    """Restarts after a failure: they count against `backoffLimit`."""

    disruptions: Count = 0
    """Restarts after a preemption, an eviction, the loss of a node or of a pod. They have a limit
    of their own; a gang that found no room is counted nowhere."""
