"""Waiting: why a job does not start, as the reason and message of its condition, and for how long.

Claims: a job starts once all claims that it names exist. Whether they admit all pods that will use
them is checked when it starts, and when it resumes, because it may have more workers by then.
Claims that are not observed are not checked: on one machine they are folders.

Causes: `CAUSES` is the table, from the words of the kubelet, the scheduler, an Event or a refusal
to a reason and a sentence. Its order is the order of precedence, since a condition has one reason.
An ordinary start is no cause, so most causes count only after some seconds.

Start errors: waiting does not cure image and configuration errors. They have their own limit, and
are not charged. Another attempt would meet the same error, so none is made. The attempt, or the Job
of the preparation, stays until the error is cured, or until startDeadlineSeconds are over and the
job fails. The status records the first error, so that a restart of the operator does not forget it.
A program that the container runtime cannot start ends its pod, and with it the attempt
(`backoff.after_start_error`). A job that has trained loses more by a failure than by a wait. So
while it has restarts left, it waits for the cure without an end. While an error lasts, the attempt
is ended neither for a lack of progress nor for members without nodes. After it, both count from its
end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile.policies.job_status import equal_without_numbers
from imagenet_operator.reconcile.types import (
    CREATING,
    INITIALIZING,
    NO_PODS,
    NOT_SCHEDULED,
    QUEUED,
    TERMINATING,
    Claim,
    ObjectEvent,
    Refusal,
    WaitingObject,
)
from imagenet_spec.errors import Problem
from imagenet_spec.resource import ImageNetJob, queue
from imagenet_spec.resource.status import StartErrors, Status, TrainingStatus

SOON: Final = timedelta(seconds=15)
"""How long pods may be unschedulable or outlive their grace period in an ordinary start."""

EVENTS_AFTER: Final = timedelta(seconds=30)
"""How long an object waits before its Events are read."""

WORDS_AFTER: Final = timedelta(seconds=3)
"""How long an object is in a queue before its Workload is read: Kueue needs a moment."""

OTHER: Final = "Other"
"""Stands for every reason that `CAUSES` lacks."""

_SILENT: Final = frozenset({CREATING, NO_PODS, NOT_SCHEDULED})
"""Reasons for which only Events may know the cause."""

_READ_AFTER: Final = {
    QUEUED: WORDS_AFTER,
    **dict.fromkeys((*_SILENT, INITIALIZING), EVENTS_AFTER),
}
"""How long an object waits before its Events are read; some reasons need no Event."""

_DETAIL_MAXIMUM: Final = 1024
"""Characters of an explanation that are kept."""

_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True)
class Cause:
    """One cause.

    Attributes:
        remedy: What to change; empty if waiting may cure it.
        after: How long an object waits before this is a cause.
        is_error: Whether it counts against startDeadlineSeconds.
    """

    reason: str
    text: str
    remedy: str = ""
    after: timedelta = _AT_ONCE
    is_error: bool = False


@dataclass(frozen=True)
class Wait:
    """Why a job waits, for its condition; `is_error` if for an image or a configuration."""

    reason: str
    message: str
    is_error: bool = False


def _error(reason: str, text: str, remedy: str) -> Cause:
    return Cause(reason, text, remedy, is_error=True)


_IMAGE = (
    "push the image, correct its name (spec.training.image, else images in the chart's values), or "
    "name a Secret for the registry in spec.training.imagePullSecrets"
)
_NAME = "correct spec.training.image, or images in the chart's values"
_CLASS = (
    "delete the job and the claim, and create the job with a storageClassName that provides these "
    "accessModes, or with accessModes that the class provides"
)
_TEMPLATE = "create what the template names, or correct the template"

CAUSES: Final[Mapping[str, Cause]] = {
    "InvalidImageName": _error("InvalidImageName", "the name of the image is invalid", _NAME),
    "ErrImagePull": _error("ImagePullBackOff", "the image cannot be pulled", _IMAGE),
    "ImagePullBackOff": _error("ImagePullBackOff", "the image cannot be pulled", _IMAGE),
    "RegistryUnavailable": _error("ImagePullBackOff", "the registry does not answer", _IMAGE),
    "SignatureValidationFailed": _error(
        "SignatureValidationFailed", "the image's signature is not accepted", _IMAGE
    ),
    "ErrImageNeverPull": _error(
        "ErrImageNeverPull",
        "the image is not on the node",
        "load the image onto the node, or set imagePullPolicy in the chart's values",
    ),
    "ImageInspectError": _error("ImageInspectError", "the image cannot be read", _IMAGE),
    "CreateContainerConfigError": _error(
        "CreateContainerConfigError", "the container's configuration is invalid", _TEMPLATE
    ),
    "CreateContainerError": _error(
        "CreateContainerError", "the container cannot be created", "correct the template"
    ),
    "RunContainerError": _error(
        "RunContainerError", "the container cannot be started", "correct the template"
    ),
    "MissingVolumeSource": _error(
        "FailedMount", "a volume names a Secret or ConfigMap that is missing", _TEMPLATE
    ),
    "CrashLoopBackOff": Cause("CrashLoopBackOff", "a container keeps failing"),
    "ProvisioningFailed": Cause("ProvisioningFailed", "cannot be provisioned", _CLASS),
    "FailedBinding": Cause(
        "FailedBinding",
        "is not bound",
        "name a storageClassName, mark a StorageClass as the default, or create a PersistentVolume",
    ),
    "ExternalProvisioning": Cause(
        "ExternalProvisioning", "is not provisioned yet", "check the provisioner of its class"
    ),
    TERMINATING: Cause("PodTerminating", "the pod is being deleted", after=SOON),
    "Unschedulable": Cause("Unschedulable", "no node fits the pod", after=SOON),
    "SchedulerError": Cause(
        "SchedulerError", "the scheduler failed", "check the pod's claims and the scheduler", SOON
    ),
    QUEUED: Cause(QUEUED, "waiting in queue"),
    "SchedulingGated": Cause(
        "SchedulingGated", "a scheduling gate of another controller holds the pod", after=SOON
    ),
    "FailedCreate": Cause("FailedCreate", "its pods cannot be created"),
    "FailedMount": Cause("FailedMount", "a volume cannot be mounted"),
    "FailedMapVolume": Cause("FailedMount", "a volume cannot be mounted"),
    "FailedAttachVolume": Cause("FailedAttachVolume", "a volume cannot be attached to the node"),
    "FailedCreatePodSandBox": Cause(
        "FailedCreatePodSandBox", "the pod's sandbox, such as its network, cannot be created"
    ),
    "NetworkNotReady": Cause("NetworkNotReady", "the node's network is not ready"),
    "Pulling": Cause("PullingImage", "the image is being pulled"),
    NOT_SCHEDULED: Cause("NotScheduled", "no scheduler has handled the pod", after=EVENTS_AFTER),
    INITIALIZING: Cause(INITIALIZING, "an init container runs", after=EVENTS_AFTER),
    CREATING: Cause(CREATING, "the containers are being created", after=EVENTS_AFTER),
    OTHER: Cause("PodPending", "the pod does not start", after=EVENTS_AFTER),
}
"""What an object, or the Event about it, says → the cause, the most urgent first."""

EVENT_REASONS: Final = frozenset(
    {
        "FailedCreate",
        "FailedMount",
        "FailedMapVolume",
        "FailedAttachVolume",
        "FailedCreatePodSandBox",
        "NetworkNotReady",
        "Pulling",
    }
)
"""The causes in the table that only Events have."""

CLAIM_REASONS: Final = frozenset({"ProvisioningFailed", "FailedBinding", "ExternalProvisioning"})
"""The causes in the table that only Events about a claim have."""

_UNBOUND: Final = frozenset({NOT_SCHEDULED, "Unschedulable", "SchedulerError"})
"""Reasons of a pod that may wait for a claim."""

_RANK: Final = {name: number for number, name in enumerate(CAUSES)}

UNPLACED: Final = frozenset({"Unschedulable", "NotScheduled"})
"""The reasons of pods that the scheduler does not place."""

QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""The reason of objects that a ResourceQuota refuses."""

_REFUSALS: Final = (
    ("exceeded quota", QUOTA_EXCEEDED, "raise the ResourceQuota, or lower what the job requests"),
    ("failed quota", QUOTA_EXCEEDED, "set the requests and limits that the ResourceQuota needs"),
    ("violates PodSecurity", "PodSecurityViolated", "correct the template"),
    ("failed calling webhook", "WebhookFailed", ""),
    ("admission webhook", "WebhookDenied", ""),
    ("ValidatingAdmissionPolicy", "PolicyDenied", ""),
    (
        "usage per",
        "LimitRangeViolated",
        "set requests and limits in the template by the LimitRange",
    ),
    ("limit to request ratio", "LimitRangeViolated", "set them in the template by the LimitRange"),
)
"""A part of a refusal → the reason, and what to change."""

_UNKNOWN: Final = "ApiServerRefused"

REASONS: Final = frozenset(
    {cause.reason for cause in CAUSES.values()}
    | {reason for _, reason, _ in _REFUSALS}
    | {_UNKNOWN}
)
"""All reasons that this policy gives."""

_MISSING: Final = re.compile(
    r'(secret|configmap) "[^"]*" not found|references non-existent \w+ key'
)
_NO_CLASS: Final = re.compile(r'storageclass\S* "[^"]*" not found', re.IGNORECASE)
_OTHER_CLASS: Final = (
    "create this StorageClass, or delete the job and the claim and create the job with the "
    "storageClassName of one that exists"
)
_BACK_OFF: Final = re.compile(r'^Back-off pulling image "[^"]*"(: (ErrImagePull: )?)?')

_AGES: Final[tuple[tuple[int, str], ...]] = (
    (0, "15 s"),
    (60, "1 min"),
    (300, "5 min"),
    (1800, "30 min"),
    (3600, "1 h"),
    (6 * 3600, "6 h"),
    (86400, "1 day"),
    (7 * 86400, "1 week"),
)
"""Ages for people; a new one is worth a write of the status."""

START_DEADLINE_EXCEEDED: Final = "StartDeadlineExceeded"
"""The reason of a job that fails because its pods cannot start."""

NOT_STARTED: Final = "RunContainerError"
"""The reason of an attempt that ended because a program could not be started."""

_SHARED_CLAIM: Final = "name a claim with ReadWriteMany"
"""What to change if a claim does not admit all pods."""


def missing_claims(job: ImageNetJob, absent: Collection[str]) -> str | None:
    """Return the claims that a start has to wait for, as a message; None for none.

    A claim that the job creates itself, and may name for its output too, is not awaited.
    """
    awaited = set(absent) - volumes.claim_names(job)
    found = [
        f"{item.path}: there is no PersistentVolumeClaim {item.claim}"
        for item in volumes.existing(job)
        if item.claim in awaited
    ]
    return f"{'; '.join(found)}; waiting until it is created" if found else None


def claim_problems(job: ImageNetJob, access: Mapping[str, tuple[str, ...]]) -> list[Problem]:
    """Return why the job cannot use the claims that it names, by the access modes of those seen."""
    found = []
    for item in volumes.existing(job):
        modes = access.get(item.claim)
        if modes is None:
            continue
        allowed = " and ".join(modes)
        field, pods = item.users
        if item.written and set(modes) == {"ReadOnlyMany"}:
            message = f"{item.claim} allows {allowed}, and the job has to write to it"
            found.append(Problem(item.path, message, _SHARED_CLAIM, "operator"))
        elif pods > 1 and set(modes) == {"ReadWriteOncePod"}:
            message = f"{item.claim} allows {allowed}, and {field} says {pods} pods"
            remedy = f"{_SHARED_CLAIM}, or write 1 there"
            found.append(Problem(item.path, message, remedy, "operator"))
    return found


def differing_claims(job: ImageNetJob, claims: Mapping[str, Claim]) -> list[tuple[Claim, str]]:
    """Return the claims of a former job that are not as this job asks for, each with a message."""
    found = []
    for wanted in volumes.claims(job):
        claim = claims.get(wanted["metadata"]["name"])
        if claim is None or not claim.is_older_than(job.metadata.creation_timestamp):
            continue
        spec = wanted["spec"]
        asked, has = [], []
        if set(spec["accessModes"]) != set(claim.modes):
            asked.append(" and ".join(spec["accessModes"]))
            has.append(" and ".join(claim.modes))
        if spec.get("storageClassName") not in (None, claim.storage_class):
            asked.append(f"the StorageClass {spec['storageClassName']}")
            has.append(f"the StorageClass {claim.storage_class or 'none'}")
        if asked:
            message = (
                f"PersistentVolumeClaim {claim.name} of a former job exists with {', '.join(has)}; "
                f"the job asks for {', '.join(asked)}"
            )
            found.append((claim, message))
    return found


def single_node_claims(job: ImageNetJob, access: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the claims that several pods can use only if they share a node, by name."""
    found = set()
    for item in volumes.existing(job):
        modes = access.get(item.claim, ("ReadWriteMany",))
        is_for_many = "ReadWriteMany" in modes or (not item.written and "ReadOnlyMany" in modes)
        if not is_for_many:
            found.add(item.claim)
    return tuple(sorted(found))


def refused(refusal: Refusal, former: str = "") -> Wait:
    """Return the wait for something that the API server refuses.

    The former message stays if only numbers would change in it.
    """
    reason, remedy = classified(refusal.message)
    message = _with_remedy(f"the API server refuses it: {_cut(refusal.message)}", remedy)
    is_known = equal_without_numbers(message, former)
    return Wait(reason, former if is_known else message)


def find(
    objects: Iterable[WaitingObject],
    events: Mapping[str, ObjectEvent],
    now: datetime,
    former: str = "",
) -> Wait | None:
    """Return why a job waits; None without a cause.

    Objects are in a fixed order. `events` has the Event that says most about an object, by its UID.
    The former message stays if only numbers would change in it.
    """
    found = [
        blocked
        for item in objects
        if (blocked := _blocked(item, events.get(item.uid), now)) is not None
    ]
    if not found:
        return None
    first = min(found, key=lambda blocked: (not blocked.cause.is_error, blocked.rank)).cause
    kind = first.reason, first.is_error
    alike = [item for item in found if (item.cause.reason, item.cause.is_error) == kind]
    # The object that the former message names stays the example. A new one is the last by name: it
    # is likely to start last, so it is named for long.
    named = former.partition(" ")[0].rstrip(":")
    example = next((item for item in alike if item.object.name == named), alike[-1])
    if first.reason == QUEUED:
        # A group has one workload, which was asked for with one of its pods.
        example = next((item for item in alike if item.detail), example)
        return Wait(QUEUED, _in_queue(example, former))
    message = _message(example, len(alike) - 1)
    if example.object.name == named:
        message = _steady(message, former, example)
    return Wait(first.reason, message, first.is_error)


def next_check(
    objects: Iterable[WaitingObject], now: datetime, interval: timedelta
) -> datetime | None:
    """Return when to reconcile again, because no event may announce the next cause.

    `interval` is the time between two reads of Events or ages.
    """
    begins = [
        item.since + _READ_AFTER.get(item.reason, SOON)
        for item in objects
        if item.since is not None
    ]
    return min(time if now < time else now + interval for time in begins) if begins else None


def names_missing(message: str) -> bool:
    """Whether the message of an Event names a Secret, ConfigMap or key that is missing."""
    return _MISSING.search(message) is not None


def needs_events(objects: Iterable[WaitingObject], now: datetime) -> list[WaitingObject]:
    """Return the objects that wait for so long that their Events are worth a request."""
    return [
        item
        for item in objects
        if item.reason in _SILENT | {QUEUED} or (item.claims and item.reason in _UNBOUND)
        if item.since is not None
        if now >= item.since + _READ_AFTER.get(item.reason, EVENTS_AFTER)
        # Without a queue, Kueue says nothing more.
        if item.reason != QUEUED or item.message
    ]


@dataclass(frozen=True)
class _Blocked:
    """An object with its cause, the place of that in the table, and an explanation."""

    object: WaitingObject
    cause: Cause
    rank: int
    detail: str


def _blocked(item: WaitingObject, event: ObjectEvent | None, now: datetime) -> _Blocked | None:
    """Return an object with its cause; None while it has none."""
    name, detail = item.reason, _BACK_OFF.sub("", item.message)
    if name == QUEUED:
        detail = "" if event is None else event.message
    if event is not None and name in (CREATING, NO_PODS) and event.reason in EVENT_REASONS:
        is_missing = event.reason == "FailedMount" and names_missing(event.message)
        name = "MissingVolumeSource" if is_missing else event.reason
        detail = event.message
    is_of_claim = event is not None and bool(event.claim) and item.reason in _UNBOUND
    if event is not None and is_of_claim:
        name, detail = event.reason, event.message
    if name == NO_PODS:
        # A new Job; only its Events say why it gets none.
        return None
    if name not in CAUSES:
        name, detail = OTHER, f"{name}: {detail}" if detail else name
    cause = CAUSES[name]
    if event is not None and is_of_claim:
        has_class = _NO_CLASS.search(detail) is None
        remedy = cause.remedy if has_class else _OTHER_CLASS
        cause = replace(cause, text=f"{event.claim} {cause.text}", remedy=remedy)
    if item.beside_running and not cause.is_error:
        return None
    if cause.after and (item.since is None or now < item.since + cause.after):
        return None
    rank = _RANK[name]
    if item.beside_running:
        # Its Job makes progress, and may place the pod on another node.
        cause = replace(cause, is_error=False)
    if name == TERMINATING:
        assert item.since is not None  # only then it is a cause
        seconds = (now - item.since).total_seconds()
        age = _AGES[bisect_right([limit for limit, _ in _AGES], seconds) - 1][1]
        held = f"; its finalizers are {', '.join(item.finalizers)}" if item.finalizers else ""
        detail = f"its grace period ended over {age} ago{held}"
    elif name == "FailedCreate" and (known := classified(detail)) != (_UNKNOWN, ""):
        cause = replace(cause, reason=known[0], remedy=known[1])
    return _Blocked(item, cause, rank, detail)


def _in_queue(example: _Blocked, former: str) -> str:
    """Return the message of what a queue holds; the former one if only numbers would change."""
    item = example.object
    if not item.message:
        what = "Kueue holds the attempt"
        if item.kind == "Job":
            what = f"another controller, such as Kueue, holds the {item.role} Job"
        words = (
            f"{what}, which names no queue; suspend the ImageNetJob and resume it, for Kueue with "
            f"the label {queue.NAME}"
        )
    elif item.kind == "Job":
        words = f"Kueue holds the {item.role} Job"
        words += f": {_cut(example.detail)}" if example.detail else f" in queue {item.message}"
    else:
        words = f"{example.cause.text} {item.message}"
        words += f": {_cut(example.detail)}" if example.detail else ""
    return former if equal_without_numbers(words, former) else words


def _message(example: _Blocked, others: int) -> str:
    item = example.object
    place = f" on {item.node}" if item.node else ""
    more = f" and {others} more" if others else ""
    detail = f": {_cut(example.detail)}" if example.detail else ""
    words = f"{item.name}{place}{more}: {example.cause.text}{detail}"
    return _with_remedy(words, example.cause.remedy)


def _steady(message: str, former: str, example: _Blocked) -> str:
    """Return the former message if the new one adds nothing: that saves a write of the status."""
    if example.object.reason == TERMINATING:
        return message
    if equal_without_numbers(message, former):
        return former
    # An older kubelet explains a failed pull only until it backs off.
    is_bare = not example.detail and former.startswith(_message(example, 0).split(";")[0])
    return former if is_bare else message


def classified(message: str) -> tuple[str, str]:
    """Return the reason of a refusal by the API server, and what to change."""
    return next(
        ((reason, remedy) for part, reason, remedy in _REFUSALS if part in message), (_UNKNOWN, "")
    )


def _with_remedy(words: str, remedy: str) -> str:
    return f"{words}; {remedy}" if remedy else words


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _DETAIL_MAXIMUM else f"{text[:_DETAIL_MAXIMUM]}…"


def is_worth_a_wait(job: ImageNetJob, status: Status) -> bool:
    """Whether a job waits for the cure of a start error beyond the deadline."""
    has_restarts = status.restarts < job.spec.run_policy.backoff_limit
    return has_restarts and status.progressed_attempt is not None


def recorded_errors(
    former: StartErrors | None, is_error: bool, now: datetime
) -> StartErrors | None:
    """Return the record after this reconcile."""
    if is_error:
        return former if has_start_error(former) else StartErrors(since=now)
    return StartErrors(cleared=now) if has_start_error(former) else former


def has_start_error(errors: StartErrors | None) -> bool:
    """Whether an error lasts."""
    return errors is not None and errors.since is not None


def start_deadline(errors: StartErrors | None, seconds: int) -> datetime | None:
    """Return when the job fails unless the error is cured; None without an error."""
    if errors is None or errors.since is None:
        return None
    return errors.since + timedelta(seconds=seconds)


def without_start_errors(training: TrainingStatus, errors: StartErrors | None) -> TrainingStatus:
    """Return an attempt as the other deadlines read it: its waits begin when the errors end."""
    if errors is None or errors.cleared is None:
        return training
    times = {name: getattr(training, name) for name in ("schedulable_time", "bound_time")}
    return training.model_copy(
        update={name: max(time, errors.cleared) for name, time in times.items() if time is not None}
    )
