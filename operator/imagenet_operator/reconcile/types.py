"""The vocabulary of a pass: what is observed, what is decided.

``observe.sort`` turns Kubernetes-shaped objects into an `Observed`; ``decide`` turns that into a
`Decision`, which a cluster applies. Nothing here has behaviour beyond reading its own fields, and
nothing here knows a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any

from imagenet_operator.api.status import Status
from imagenet_operator.manifests import settings as manifests

Manifest = dict[str, Any]
"""A Kubernetes-shaped object, as its JSON would be."""


@dataclass(frozen=True)
class Taint:
    """What keeps pods off a node that do not tolerate it; the fields are Kubernetes'."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        """As `kubectl taint` takes it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True)
class Toleration:
    """What taints a pod puts up with; the fields are Kubernetes', an empty one means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True)
class Room:
    """What a node has for pods that are yet to come.

    Attributes:
        free: Resource name → amount in base units (cores, bytes, devices).
        taints: Those that keep pods out.
    """

    free: Mapping[str, Fraction]
    taints: tuple[Taint, ...] = ()


Capacity = Mapping[str, Room]
"""Node name → what it has left."""


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
    """One line of `kubectl describe`: ``type`` is Normal or Warning, ``reason`` CamelCase."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class Decision:
    """What one pass wants done.

    A cluster applies the parts in the order of the fields: creates in their own order, deletes,
    patches, then the status (where it differs in something that matters), then the events. It may
    be cut between any two of these: the next pass decides again from what it sees. An object that
    is already there when it should be created, or gone when it should be deleted or patched, is
    what was wanted and no error. If the status cannot be written, the events are not sent.

    Attributes:
        create: Manifests, in order.
        delete: References; the job itself (kind ``ImageNetJob``) when its time to live is over.
        patch: Merge patches: suspension of Jobs, scheduling gates, owners of claims.
        status: The whole new status of the job.
        events: One for each transition that this status makes.
        again_after: When to look again even if nothing happens; zero means at once, None never.
    """

    status: Status
    create: tuple[Manifest, ...] = ()
    delete: tuple[Reference, ...] = ()
    patch: tuple[Patch, ...] = ()
    events: tuple[Event, ...] = ()
    again_after: timedelta | None = None


class Phase(StrEnum):
    """Where a pod's program stands."""

    PENDING = "Pending"
    BOUND = "Bound"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Charge(StrEnum):
    """To what the end of an attempt is charged."""

    FAILURE = "failure"
    """To the program: counts against backoffLimit."""

    PERMANENT = "permanent"
    """To the program, and another attempt would end in the same way."""

    DISRUPTION = "disruption"
    """To the cluster: counts against a limit of its own."""

    WITHDRAWAL = "withdrawal"
    """To nobody: there was no room for the gang."""

    SUSPENSION = "suspension"
    """To nobody: the job is suspended."""


@dataclass(frozen=True)
class End:
    """Why an attempt has to end: a CamelCase reason, a sentence, and to what it is charged."""

    reason: str
    message: str
    charge: Charge


@dataclass(frozen=True)
class Member:
    """One pod of an attempt, as it is seen now.

    Attributes:
        attempt: The N of ``NAME-rN-ROLE-I``.
        generation: Of the job that it was made from; 0 if that is not known.
        phase: Of the program, whatever other containers of the pod do.
        live: Whether any container of the pod may still run.
        node: Where it was bound to.
        exit_code: Of the container that ended, if one did.
        reason: Why it ended or waits: the pod's or the container's reason.
        message: The container's termination message or the pod's message, for people.
        disrupted: Why the cluster took it away (preemption, eviction, a lost node), if it did.
        terminating: It has a deletionTimestamp.
        out_of_reach: Its node cannot be reached: what it says of itself may be old.
        gone: It is terminating as well: nothing will come back from it.
        gates: Names of the scheduling gates that hold it back.
        started_at: When its container started.
        finished_at: When its container ended.
        requests: Resource requests of the pod: name → amount in base units.
        tolerations: What taints it puts up with, as far as it has no node yet.
    """

    attempt: int
    role: str
    index: int
    name: str
    uid: str
    phase: Phase
    live: bool = True
    node: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    disrupted: str | None = None
    terminating: bool = False
    out_of_reach: bool = False
    gone: bool = False
    gates: tuple[str, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    generation: int = 0
    requests: Mapping[str, Fraction] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    @property
    def reference(self) -> Reference:
        """What a delete of this pod names."""
        return Reference("Pod", self.name, self.uid)


@dataclass(frozen=True)
class Attempt:
    """All children of one attempt.

    Attributes:
        number: The N of ``NAME-rN``.
        members: Its pods, in the order of role and index.
        shared: What they share: the Service, the NetworkPolicy, the PodDisruptionBudget; without
            those that are being deleted.
    """

    number: int
    members: tuple[Member, ...] = ()
    shared: tuple[Reference, ...] = ()

    @property
    def present(self) -> tuple[Member, ...]:
        """Members that may still run somewhere: all but those that count as gone."""
        return tuple(member for member in self.members if not member.gone)

    @property
    def is_exposed(self) -> bool:
        """Whether a program of it may still run, and listen."""
        return any(member.live and not member.gone for member in self.members)


@dataclass(frozen=True)
class PreparationJob:
    """One of the Jobs index, pack and seal, as it is seen now.

    Attributes:
        role: index, pack or seal.
        active, succeeded, failed: Counts of pods (for pack, succeeded counts shards).
        completions: How many must succeed.
        complete: The Job's condition Complete is true.
        failure: Why the Job's condition Failed is true, in words for people; None if it is not.
        message: The termination message of a pod that succeeded; None if no such pod is left.
        suspended: ``spec.suspend`` as written.
        terminating: It has a deletionTimestamp.
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
    complete: bool = False
    failure: str | None = None
    message: str | None = None
    suspended: bool = False
    terminating: bool = False
    stranded: bool = False

    @property
    def finished(self) -> bool:
        """Whether no pod of it runs or will run."""
        return self.complete or self.failure is not None

    @property
    def reference(self) -> Reference:
        """What a delete of this Job names."""
        return Reference("Job", self.name, self.uid)


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim made for this job (or kept from a former job of its name)."""

    name: str
    uid: str
    owners: tuple[Manifest, ...] = ()
    terminating: bool = False


@dataclass(frozen=True)
class Observed:
    """Everything that a pass sees of the cluster, sorted.

    Attributes:
        jobs: Preparation Jobs by role.
        attempts: By number.
        protection: What stands around the pods of the preparation; without what is being deleted.
        claims: By name.
        access: Claim → its access modes, of every claim that is seen, whosoever it is.
        absent: The claims that were looked for before a start, and are not there.
        foreign: (kind, name) → whose it is, for objects that are not this job's. They are never
            touched; one that holds a name that this job needs is a conflict.
        free: What nodes have left, or None if that is not known.
    """

    jobs: Mapping[str, PreparationJob] = field(default_factory=dict)
    attempts: Mapping[int, Attempt] = field(default_factory=dict)
    protection: tuple[Reference, ...] = ()
    claims: Mapping[str, Claim] = field(default_factory=dict)
    access: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    foreign: Mapping[tuple[str, str], str] = field(default_factory=dict)
    free: Capacity | None = None


@dataclass(frozen=True)
class Settings:
    """Numbers that are the operator's, not a job's.

    Attributes:
        restart_delay: Wait before the first charged restart; doubled with each further one.
        restart_delay_limit: Longest such wait.
        disruption_delay: Wait before a restart that is not charged.
        disruption_limit: How many uncharged restarts a job may have; the cap of its own.
        farewell: How long a helper (scheduler, server, rendezvous) that ended with 0 may precede
            the last worker.
        patience: When to look again at something that no event may announce: a name that somebody
            else holds, a pod on a node that may become unreachable.
        heartbeat: How often an unfinished job is looked at whatever happens: an event may be lost.
        manifests: What the builders take.
    """

    restart_delay: timedelta = timedelta(seconds=10)
    restart_delay_limit: timedelta = timedelta(minutes=6)
    disruption_delay: timedelta = timedelta(seconds=5)
    disruption_limit: int = 100
    farewell: timedelta = timedelta(seconds=60)
    patience: timedelta = timedelta(seconds=30)
    heartbeat: timedelta = timedelta(minutes=5)
    manifests: manifests.Settings = manifests.DEFAULTS


DEFAULTS = Settings()
"""What the project publishes."""
