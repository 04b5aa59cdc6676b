"""The types of a reconcile: what is observed, what is decided, and the waits and limits.

``observe.sort`` turns Kubernetes-shaped objects into an `Observed`; ``decide`` turns that into a
`Decision`, which a cluster applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from imagenet_operator.manifests import settings as manifests
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_spec.errors import Problem
from imagenet_spec.resource.status import Status

Manifest = dict[str, Any]
"""A Kubernetes-shaped object, as its JSON would be."""


@dataclass(frozen=True)
class Taint:
    """A taint that keeps pods off a node; the fields are Kubernetes'."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        """As `kubectl taint` takes it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True)
class Toleration:
    """A toleration of a pod; the fields are Kubernetes', an empty one means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True)
class Room:
    """Free capacity of a node: resource name → amount in base units (cores, bytes, devices)."""

    free: Mapping[str, Fraction]
    taints: tuple[Taint, ...] = ()


Capacity = Mapping[str, Room]
"""Node name → its free capacity."""


@dataclass(frozen=True)
class Reference:
    """One object to delete: with its UID as a precondition, so that a successor is never hit."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Patch:
    """A JSON merge patch (RFC 7396) for one object that is identified as in a `Reference`."""

    kind: str
    name: str
    uid: str
    merge: Manifest


@dataclass(frozen=True)
class Event:
    """One line of `kubectl describe`.

    Events of a job and reason with the same `series` are one line, with a count; an empty one is no
    series.
    """

    type: str
    reason: str
    message: str
    series: str = ""


@dataclass(frozen=True)
class Decision:
    """The decision of one reconcile.

    A cluster applies the parts in the order of the fields: creates in their own order, deletes,
    patches, then the status (if it has a change worth a write), then the events. It may be cut
    between any two of these: the next reconcile decides from what it observes. It is no error if an
    object exists that should be created, or is gone that should be deleted or patched. If the
    status cannot be written, the events are not sent.

    Attributes:
        delete: References; the job itself (kind ``ImageNetJob``) when its time to live is over.
        patch: Merge patches: suspension of Jobs, scheduling gates, owners of claims.
        requeue_after: Time to the next reconcile without an event; zero means now, None never.
    """

    status: Status
    create: tuple[Manifest, ...] = ()
    delete: tuple[Reference, ...] = ()
    patch: tuple[Patch, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: timedelta | None = None


class Phase(StrEnum):
    """The phase of a pod's program."""

    PENDING = "Pending"
    BOUND = "Bound"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Charge(StrEnum):
    """The account to which the end of an attempt is charged."""

    FAILURE = "failure"
    """To the program: counts against backoffLimit."""

    PERMANENT = "permanent"
    """To the program; another attempt would end in the same way."""

    FULL_VOLUME = "full volume"
    """To the program, once for a row of attempts that find the output volume full."""

    START_ERROR = "start error"
    """Not charged: the container runtime cannot start a program. startDeadlineSeconds limits it."""

    DISRUPTION = "disruption"
    """To the cluster: counts against the limit of disruptions."""

    WITHDRAWAL = "withdrawal"
    """Not charged: there was no room for the gang."""

    SUSPENSION = "suspension"
    """Not charged: the job is suspended."""

    GROWTH = "growth"
    """Not charged: the next attempt has more workers."""

    QUEUE = "queue"
    """Not charged: Kueue has taken back the quota of the attempt."""


@dataclass(frozen=True)
class End:
    """Why an attempt has to end: a CamelCase reason, a sentence, and to what it is charged."""

    reason: str
    message: str
    charge: Charge


@dataclass(frozen=True)
class MemberPod:
    """One pod of an attempt, as observed.

    Attributes:
        attempt: The N of ``NAME-rN-ROLE-I``.
        generation: Of the job that it was made from; 0 if that is not known.
        phase: Of the program, whatever other containers of the pod do.
        live: Whether any container of the pod may still run.
        finished: Its phase is Succeeded or Failed. The kubelet reports it once no container runs,
            and the scheduler does not count the pod's requests any more.
        reason: Why it ended or waits: the pod's or the container's reason.
        message: The container's termination message or the pod's message, for people.
        disrupted: Why the cluster disrupted it (preemption, eviction, a lost node), if it did.
        evicted: Why Kueue ends it, in Kueue's words; None if it does not.
        cut_short: Its program did not end before its eviction or deletion was requested, so an exit
            with 0 may be the answer to SIGTERM.
        out_of_reach: Its node cannot be reached; its status may be old.
        gone: It is out of reach and terminating, so it counts as ended.
        leaves_result: Its program leaves a result in its termination message.
        requests: Resource requests of the pod: name → amount in base units.
    """

    attempt: int
    role: str
    index: int
    name: str
    uid: str
    phase: Phase
    live: bool = True
    finished: bool = False
    node: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    disrupted: str | None = None
    evicted: str | None = None
    terminating: bool = False
    cut_short: bool = False
    out_of_reach: bool = False
    gone: bool = False
    gates: tuple[str, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    generation: int = 0
    leaves_result: bool = False
    requests: Mapping[str, Fraction] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    @property
    def foreign_gates(self) -> tuple[str, ...]:
        """The gates of other controllers, such as a queue's."""
        return tuple(name for name in self.gates if name != SCHEDULING_GATE)

    @property
    def reference(self) -> Reference:
        return Reference("Pod", self.name, self.uid)


@dataclass(frozen=True)
class Attempt:
    """All children of one attempt.

    `shared` are the Service, the NetworkPolicy and the PodDisruptionBudget, without those that are
    being deleted.
    """

    number: int
    members: tuple[MemberPod, ...] = ()
    shared: tuple[Reference, ...] = ()

    @property
    def present(self) -> tuple[MemberPod, ...]:
        """Members that are left: all but those that are gone."""
        return tuple(member for member in self.members if not member.gone)

    @property
    def unfinished(self) -> tuple[MemberPod, ...]:
        """Members that may still run or take room: neither finished nor gone."""
        return tuple(member for member in self.present if not member.finished)

    @property
    def is_exposed(self) -> bool:
        """Whether a program of it may still run, and listen."""
        return any(member.live and not member.gone for member in self.members)


@dataclass(frozen=True)
class HeldPod:
    """A pod of a Job whose program has ended, while another of its containers runs on."""

    name: str
    uid: str
    containers: tuple[str, ...]
    succeeded: bool

    @property
    def reference(self) -> Reference:
        return Reference("Pod", self.name, self.uid)


@dataclass(frozen=True)
class PreparationJob:
    """One of the Jobs of the preparation, or of an upload, as observed.

    Attributes:
        parallelism: How many pods may be active.
        complete: The Job's condition Complete is true, or all of its programs have succeeded.
        failure: Why the Job's condition Failed is true, for people; None if it is not.
        message: The termination message of a pod that succeeded; None if no such pod is left.
        suspended_by_others: Another controller, such as Kueue, has suspended it.
        queued: It has a queue of Kueue, which alone suspends it and lets it go on.
        stranded: It waits for a pod that is terminating on a node that cannot be reached. A Job
            with a failure policy replaces no pod whose end is not known.
    """

    role: str
    name: str
    uid: str
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    completions: int = 1
    parallelism: int = 1
    complete: bool = False
    failure: str | None = None
    message: str | None = None
    suspended: bool = False
    suspended_by_others: bool = False
    queued: bool = False
    terminating: bool = False
    stranded: bool = False
    held: tuple[HeldPod, ...] = ()

    @property
    def held_by_others(self) -> bool:
        """Whether another controller, such as Kueue, holds it back."""
        return self.suspended_by_others and not self.has_ended and not self.terminating

    @property
    def has_ended(self) -> bool:
        return self.complete or self.failure is not None

    @property
    def finished(self) -> bool:
        """Whether no pod of it runs or will run."""
        return self.has_ended and not self.held

    @property
    def reference(self) -> Reference:
        return Reference("Job", self.name, self.uid)


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim made for this job (or kept from a former job of its name)."""

    name: str
    uid: str
    owners: tuple[Manifest, ...] = ()
    terminating: bool = False
    pending: bool = False
    created: datetime | None = None
    modes: tuple[str, ...] = ()
    storage_class: str | None = None

    def is_older_than(self, time: datetime | None) -> bool:
        return self.created is not None and time is not None and self.created < time


TERMINATING: Final = "Terminating"
"""The reason of a pod that is being deleted."""

NO_PODS: Final = "NoPods"
"""The reason of a Job that has no pod at all."""

NOT_SCHEDULED: Final = "NotScheduled"
"""The reason of a pod that no scheduler has handled."""

CREATING: Final = "ContainerCreating"
"""The reason of a pod that has a node, but no container that ran or failed to start."""

INITIALIZING: Final = "PodInitializing"
"""The reason of a pod of which an init container runs."""

QUEUED: Final = "Queued"
"""The reason of what a queue holds back."""


@dataclass(frozen=True)
class WaitingObject:
    """A pod that has not started or is being deleted, or a Job that has no pod.

    Attributes:
        role: Its role in the job; pods of one role have one template.
        attempt: The attempt of a member; None for an object of the preparation.
        reason: A container's reason, the scheduler's, or one of the constants above.
        message: The explanation of the kubelet or the scheduler, or the name of the queue.
        since: When it was created, was suspended or resumed, was first not scheduled, got its node,
            or when its grace period ended; None if its gates are gone and the scheduler has not
            handled it since.
        finalizers: What its deletion waits for, beside the node.
        beside_running: Whether another pod of the same Job runs.
    """

    kind: str
    name: str
    uid: str
    role: str
    attempt: int | None
    reason: str
    message: str = ""
    since: datetime | None = None
    node: str | None = None
    finalizers: tuple[str, ...] = ()
    beside_running: bool = False
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """The last refusal of the API server to create, delete or patch something for the job."""

    message: str


@dataclass(frozen=True)
class ObjectEvent:
    """The Event that says most about a waiting object, or about a claim that it waits for.

    Of what waits in a queue, it has the words of the queue, and the reason `QUEUED`. `claim` is the
    claim that the Event is about, with its class and access modes; empty if it is about the object.
    """

    reason: str
    message: str
    claim: str = ""


@dataclass(frozen=True)
class Sharer:
    """A job that needs the same dataset on the same claim as the job that is reconciled.

    Attributes:
        packs: Whether it has a Job that packs or seals.
        goes_on: Whether it will take its next step: it is not suspended, deleted or finished.
        sealed_at: When its dataset was ready; None if it is not sealed.
    """

    name: str
    uid: str
    created: datetime
    packs: bool = False
    goes_on: bool = True
    sealed_at: datetime | None = None

    def packing(self) -> Sharer:
        return replace(self, packs=True)


@dataclass(frozen=True)
class Observed:
    """What a reconcile sees of the cluster, sorted.

    Attributes:
        protection: Objects that protect the pods of the preparation and are not terminating.
        access: Claim → its access modes, for every claim that is observed, of any owner.
        absent: Claims that the job names and that do not exist, read before its start.
        foreign: (kind, name) → whose it is, for objects that are not this job's. They are never
            touched; one that holds a name that this job needs is a conflict.
        free: Free capacity of the nodes; None if it is not known.
        unreachable_nodes: Nodes of the job's pods, and of the members that its status records, that
            cannot be reached.
        waiting: Pods that do not start or do not go, and Jobs without pods.
        events: The UID of one of these → the Event that says most about it; only for some. None if
            Events are needed and cannot be read.
        refusal: The last refusal of the API server, while it lasts.
        sharers: Jobs that need this dataset on this claim, while this job may begin to pack.
        unsupported: Fields of the job's spec that this version does not accept. Nothing may be
            built from such a spec.
        is_built: Whether all manifests of this generation of the job have been built before.
    """

    jobs: Mapping[str, PreparationJob] = field(default_factory=dict)
    attempts: Mapping[int, Attempt] = field(default_factory=dict)
    protection: tuple[Reference, ...] = ()
    claims: Mapping[str, Claim] = field(default_factory=dict)
    access: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    foreign: Mapping[tuple[str, str], str] = field(default_factory=dict)
    free: Capacity | None = None
    unreachable_nodes: frozenset[str] = frozenset()
    waiting: tuple[WaitingObject, ...] = ()
    events: Mapping[str, ObjectEvent] | None = field(default_factory=dict)
    refusal: Refusal | None = None
    sharers: tuple[Sharer, ...] = ()
    unsupported: tuple[Problem, ...] = ()
    is_built: bool = False


@dataclass(frozen=True)
class ReconcileSettings:
    """Settings of the operator for all jobs.

    Attributes:
        restart_delay: Wait after the second failure of a row; doubled with each further one.
        full_volume_delay_limit: Longest wait before an attempt after one with a full volume.
        full_volume_limit: How many attempts in a row may find the output volume full.
        upload_delay_limit: Longest wait before an upload of the model after one that failed.
        upload_limit: How many uploads of the model may fail; with the waits, those of about a day.
        exit_grace_period: How long a scheduler, server or rendezvous that exited with 0 may precede
            the last worker.
        requeue_interval: Time to the next reconcile when no event may announce the change that the
            job waits for: a name that another object holds, a node that may become unreachable.
        resync_period: Longest time between two reconciles of an unfinished job; events may be lost.
    """

    restart_delay: timedelta = timedelta(seconds=10)
    restart_delay_limit: timedelta = timedelta(minutes=6)
    disruption_delay: timedelta = timedelta(seconds=5)
    disruption_limit: int = 100
    full_volume_delay_limit: timedelta = timedelta(minutes=10)
    full_volume_limit: int = 24
    upload_delay_limit: timedelta = timedelta(minutes=30)
    upload_limit: int = 50
    exit_grace_period: timedelta = timedelta(seconds=60)
    requeue_interval: timedelta = timedelta(seconds=30)
    resync_period: timedelta = timedelta(minutes=5)
    manifests: manifests.Settings = manifests.DEFAULTS


DEFAULTS = ReconcileSettings()
