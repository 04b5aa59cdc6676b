"""`status`: what the operator reports. Only the decisions set it, once in each reconcile."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen
from pydantic import Field

from imagenet_spec.names import MemberRole
from imagenet_spec.resource.base import MapList, Model
from imagenet_spec.resource.dataset_status import DatasetStatus
from imagenet_spec.resource.elastic_workers import CHANGES_MAXIMUM
from imagenet_spec.resource.fields import (
    INT32_MAXIMUM,
    BucketName,
    Count,
    Fraction,
    LongCount,
    Message,
    ObjectName,
    Sha256,
    Speed,
    Text,
    Time,
)
from imagenet_spec.resource.figures import TrainingFigures
from imagenet_spec.resource.frameworks import FrameworkName
from imagenet_spec.resource.time_status import TimeStatus, WorkerSeconds

ConditionType = Literal[
    "Created",
    "DatasetReady",
    "DatasetPublished",
    "Running",
    "Restarting",
    "Straggling",
    "Suspended",
    "Succeeded",
    "ModelUploaded",
    "Failed",
]
Phase = Literal[
    "Created",
    "Queued",
    "Preparing",
    "Starting",
    "Running",
    "Restarting",
    "Suspending",
    "Suspended",
    "Succeeded",
    "Failed",
]
MEMBERS_MAXIMUM = 20_001
"""Members of an attempt in any stored status."""


class StartErrors(Model):
    """Image and configuration errors that keep pods from starting."""

    since: Time | None = None
    """When the first one was seen, while there is one; for `startDeadlineSeconds`."""

    cleared: Time | None = None
    """When the last one was gone. `progressDeadlineSeconds` and `scheduleTimeoutSeconds` do not
    count the time before."""


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


class MemberStatus(Model):
    """One pod of an attempt. Terminal states are recorded here before the pod is deleted."""

    name: Text
    """The pod's name."""

    uid: Annotated[str, MaxLen(64)] | None = None
    """The pod's UID, once it has been seen."""

    role: MemberRole
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


class MemberGroup(Model):
    """Pods of a large attempt with the same role and state."""

    role: MemberRole
    """The members' role."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    """The pods' phase."""

    pods: Annotated[str, MaxLen(131_072)]
    """The pods' names, with their indices in brackets: ``NAME-r0-worker-[0-311,313-999]``."""

    uids: Annotated[str, MaxLen(262_144)] | None = None
    """Fingerprints of the pods' UIDs, 8 characters each, in the order of their indices."""

    exit_code: Annotated[int, Ge(-INT32_MAXIMUM - 1), Le(INT32_MAXIMUM)] | None = None
    """The main containers' exit code."""

    reason: Annotated[str, MaxLen(1024)] | None = None
    """Why they ended: the reason of Kubernetes."""

    first_finished_at: Time | None = None
    """When the first of them ended."""

    last_finished_at: Time | None = None
    """When the last of them ended."""


class ReplicaStatus(Model):
    """The members of one role, counted as in Kubeflow."""

    active: Count = 0
    """Pending and running members."""

    succeeded: Count = 0
    """Succeeded members."""

    failed: Count = 0
    """Failed members."""


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


WaitCause = Literal["Reads", "Cores", "Decoders", "Launches"]


class DataWaitStatus(Model):
    """Reading compared with the network, over the last 100 steps or more of each worker."""

    images_per_second: Speed
    """The images that all workers read, decode and train."""

    network_images_per_second: Speed
    """The images that they would train without waiting for data."""

    share: Fraction
    """The fraction of their time spent waiting for data."""

    cause: WaitCause | None = None
    """What the workers wait for, if they wait more than 10 % of the time: records that are still
    being read, cores, or decoders. Otherwise Launches, if their GPUs wait for the program to launch
    steps. Absent if it was not measured."""

    message: Message = ""
    """The comparison in words. If there is a cause, or the workers wait more than 10 % of the time,
    it names what to change."""


class Straggler(Model):
    """A process that computes for longer than the others before each exchange of gradients."""

    name: Text
    """The pod's name."""

    slot: LongCount | None = None
    """The process in its pod, from 0, if the pod has several."""

    factor: Annotated[float, Ge(0)]
    """How many times the median of all processes it took when it was found."""


class TrainingStatus(TrainingFigures):
    """The current attempt, or the last."""

    finished_epochs: Annotated[str, MaxLen(64)] | None = None
    """The finished epochs and all epochs, such as ``3/10``, for `kubectl get`."""

    eta: Annotated[str, MaxLen(16)] | None = None
    """The estimated remaining time, rounded, such as ``2h10m``, for `kubectl get`."""

    attempt: LongCount = 0
    """The attempt's number; its pods are named ``NAME-rATTEMPT-ROLE-INDEX``."""

    rank0_pod: Text | None = None
    """The pod of the worker of rank 0, whose log has the accuracy."""

    workers: Count | None = None
    """The attempt's number of workers, if the job has `minReplicas`."""

    next_workers: Count | None = None
    """The number of workers of the next attempt, recorded before its pods are created."""

    bound_workers: Count | None = None
    """The workers that had nodes when an attempt that may have fewer was withdrawn."""

    worker_changes: Annotated[tuple[Time, ...], MaxLen(CHANGES_MAXIMUM)] | None = None
    """When the number of workers changed; for `maxChangesPerHour`."""

    growth_after: Time | None = None
    """The earliest time at which the job gets more workers, after more should have fit and the
    scheduler did not place them."""

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

    expects_result: bool = False
    """Whether success needs a result in a worker's termination message."""

    members: Annotated[tuple[MemberStatus, ...], MaxLen(MEMBERS_MAXIMUM), MapList("name")] = ()
    """The attempt's pods. Of more than 500, those with an own message: the first that failed, and
    the worker with the result."""

    member_groups: Annotated[tuple[MemberGroup, ...], MaxLen(1024)] | None = None
    """The other pods of an attempt of more than 500, grouped by role and state."""

    replica_statuses: Annotated[dict[str, ReplicaStatus], MaxLen(8)] = Field(default_factory=dict)
    """The attempt's pods, counted by role."""

    data_wait: DataWaitStatus | None = None
    """Reading compared with the network, after the first 100 steps."""

    data_wait_reported: bool = False
    """Whether an event of this attempt reported that its workers wait for data or launches."""

    stragglers: Annotated[tuple[Straggler, ...], MaxLen(16)] | None = None
    """The slowest processes, while there are any that keep the others waiting."""

    seconds: WorkerSeconds | None = None
    """The time of rank 0 by phase, since its process started."""

    last_progress_time: Time | None = None
    """When training last progressed."""

    next_attempt_time: Time | None = None
    """When the next attempt starts, while the job waits for it."""


class ModelStatus(Model):
    """The place of the trained model: a claim, or a bucket."""

    claim_name: ObjectName | None = None
    """The claim of its volume; absent if `bucket` is given."""

    bucket: BucketName | None = None
    """The bucket that has it, after it was uploaded (`training.output.upload`)."""

    path: Text
    """The folder of the model and of result.json, from the root of the claim or of the bucket."""

    framework: FrameworkName | None = None
    """The framework of the model. Absent in the status of an earlier release."""

    sha256: Sha256 | None = None
    """The SHA-256 of result.json, which lists the model's files with theirs. Absent if the worker's
    program is of an earlier release."""

    @property
    def place(self) -> str:
        """The place in words, such as ``jobs/digits-0123abcd/attempts/r0 on the claim data``."""
        if self.bucket is not None:
            return f"s3://{self.bucket}/{self.path}"
        return f"{self.path} on the claim {self.claim_name}"


class UploadStatus(Model):
    """The failed uploads of the model."""

    failures: Count
    """How many have failed."""

    next_time: Time | None = None
    """When the next one starts, while the job waits for it."""


class Status(Model):
    """The status of the job."""

    conditions: Annotated[tuple[Condition, ...], MaxLen(16), MapList("type")] = ()
    """The conditions of the job, one of each type."""

    phase: Phase | None = None
    """A summary of the conditions in one word."""

    reason: Annotated[str, MaxLen(1024)] | None = None
    """The reason of the condition that explains the phase: why the job ended, or what it waits
    for."""

    start_time: Time | None = None
    """When the operator accepted the job."""

    completion_time: Time | None = None
    """When the job succeeded or failed."""

    observed_generation: LongCount | None = None
    """The generation of the job that this status describes."""

    dataset: DatasetStatus | None = None
    """The prepared dataset, once its images are fetched or listed."""

    single_node_claims: Annotated[tuple[ObjectName, ...], MaxLen(4)] | None = None
    """Claims in `spec` without ReadWriteMany at the job's start, which only the pods of one node
    can use. Pods that use one share a node."""

    preparation: Clock | None = None
    """The time of the preparation; for `preparationDeadlineSeconds`."""

    start_failures_since: Time | None = None
    """When the first attempt of a row ended because the container runtime could not start a
    program."""

    start_errors: StartErrors | None = None
    """Image and configuration errors, once there was one."""

    training: TrainingStatus | None = None
    """The current attempt, or the last."""

    model: ModelStatus | None = None
    """The trained model, after success. A program of the user's own has none here."""

    upload: UploadStatus | None = None
    """The failed uploads of the model, until one has succeeded."""

    time: TimeStatus | None = None
    """Where the time of the job went."""

    restarts: Count = 0
    """Restarts after a failure: they count towards `backoffLimit`."""

    consecutive_failures: Count = 0
    """Failures since an attempt last trained new steps for 30 s or more. The wait before the next
    attempt depends on them."""

    full_volume_attempts: Count = 0
    """Attempts in a row that found the output volume full. The first one counts as a restart."""

    disruptions: Count = 0
    """Restarts after a preemption, an eviction, or the loss of a node or pod. A gang without
    capacity does not count."""

    consecutive_disruptions: Count | None = None
    """Disruptions since an attempt last progressed (`progressedAttempt`). They have a limit."""

    progressed_attempt: LongCount | None = None
    """The newest attempt that trained new steps for 30 s or more. Of a program that serves no
    metrics, it is one in which all members ran for 10 minutes."""

    rejecting_nodes: Annotated[tuple[Annotated[str, MaxLen(253)], ...], MaxLen(16)] | None = None
    """Nodes whose kubelet rejected a pod since an attempt last progressed. The pods of the next
    attempt prefer other nodes."""

    metrics_left_out: Text | None = None
    """Pods whose metrics exceed a limit of the operator, each with the limit. The operator leaves
    them out; figures that need all workers are then missing."""

    @property
    def disruptions_in_a_row(self) -> int:
        """Disruptions since an attempt last progressed; all of them if an older CRD prunes that."""
        in_a_row = self.consecutive_disruptions
        return self.disruptions if in_a_row is None else in_a_row

    @property
    def listed(self) -> DatasetStatus | None:
        """The dataset, once its images are listed."""
        return self.dataset if self.dataset is not None and self.dataset.key else None
