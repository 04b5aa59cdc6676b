"""What waits: pods that do not start or do not go, and Jobs without pods, as observed.

`observe.sort` collects them from the same objects as the members and the Jobs. The policy
`waiting` says why they wait. Most reasons are in a pod's status. Some are only in Events, and a
refusal only in the answer to a request: a cluster that knows those adds them to the `Observed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from imagenet_operator.api import Manifest, queue
from imagenet_operator.manifests import labels
from imagenet_operator.manifests.names import SCHEDULING_GATE

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

_GATED: Final = "SchedulingGated"
"""The scheduler's reason of a pod with a gate; it stays until the scheduler handles the pod."""

QUEUED: Final = "Queued"
"""The reason of what a queue holds back."""

_ORDINARY: Final = frozenset({None, CREATING, INITIALIZING})
"""Reasons of a container that is on its way."""


@dataclass(frozen=True)
class WaitingObject:
    """A pod that has not started or is being deleted, or a Job that has no pod.

    Attributes:
        kind: Pod or Job.
        role: Its role in the job; pods of one role have one template.
        attempt: The attempt of a member; None for an object of the preparation.
        reason: A container's reason, the scheduler's, or one of this module.
        message: The explanation of the kubelet or the scheduler, or the name of the queue.
        since: When it was created, was first not scheduled, got its node, or when its grace period
            ended; None if its gates are gone and the scheduler has not handled it since.
        node: The node of a pod, if it has one.
        finalizers: What its deletion waits for, beside the node.
        beside_running: Whether another pod of the same Job runs.
        claims: The claims of a pod without a node, by name.
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

    Of what waits in a queue, it has the words of the queue, and the reason `QUEUED`.

    Attributes:
        reason: The Event's.
        message: The Event's.
        claim: The claim that the Event is about, with its class and access modes; empty if it is
            about the object.
    """

    reason: str
    message: str
    claim: str = ""


def find(
    owned: Iterable[Manifest],
    pods_by_job: Mapping[str, Sequence[Manifest]],
    unreachable_nodes: frozenset[str],
) -> tuple[WaitingObject, ...]:
    """Return what waits among the objects of a job, by name.

    Args:
        owned: The job's objects; other kinds than members and Jobs are ignored.
        pods_by_job: The UID of each Job → its pods.
        unreachable_nodes: Nodes on which a pod that is deleted counts as gone.
    """
    found: list[WaitingObject] = []
    for item in owned:
        if item["kind"] == "Job":
            found += _of_job(item, pods_by_job[item["metadata"]["uid"]])
        elif item["kind"] == "Pod":
            attempt = int(item["metadata"]["labels"][labels.ATTEMPT])
            found += filter(None, [_pod(item, attempt)])
    remaining = (
        item for item in found if item.reason != TERMINATING or item.node not in unreachable_nodes
    )
    return tuple(sorted(remaining, key=lambda item: item.name))


def is_suspended_by_others(job: Manifest) -> bool:
    """Whether another controller has suspended a Job: Kueue does so with each one in a queue."""
    found = _labels(job)
    is_ours = labels.SUSPENDED in found and queue.NAME not in found
    return bool(job["spec"].get("suspend")) and not is_ours


def _of_job(job: Manifest, pods: Sequence[Manifest]) -> list[WaitingObject]:
    """Return the waiting pods of a Job, or the Job if it has no pod."""
    has_ended = any(
        item["type"] in ("Complete", "Failed") and item["status"] == "True"
        for item in _conditions(job)
    )
    if has_ended or "deletionTimestamp" in job["metadata"]:
        return []
    if not pods and is_suspended_by_others(job):
        held = next((item for item in _conditions(job) if item["type"] == "Suspended"), {})
        since = held.get("lastTransitionTime") or job["metadata"].get("creationTimestamp")
        return [_object(job, None, QUEUED, _labels(job).get(queue.NAME, ""), time_of(since))]
    if not pods and not job["spec"].get("suspend"):
        return [
            _object(job, None, NO_PODS, since=time_of(job["metadata"].get("creationTimestamp")))
        ]
    runs = any(
        pod.get("status", {}).get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        for pod in pods
    )
    return [item for pod in pods if (item := _pod(pod, None, beside_running=runs)) is not None]


def _pod(
    pod: Manifest, attempt: int | None, *, beside_running: bool = False
) -> WaitingObject | None:
    """Return a pod that waits; None if it runs, has ended, or is held back by the operator."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    if "deletionTimestamp" in metadata:
        if status.get("phase") in ("Succeeded", "Failed") and attempt is None:
            return None
        since = time_of(metadata["deletionTimestamp"])
        return _object(pod, attempt, TERMINATING, since=since, beside_running=beside_running)
    if status.get("phase", "Pending") != "Pending":
        return None
    gates = {gate["name"] for gate in spec.get("schedulingGates") or ()}
    if SCHEDULING_GATE in gates:
        return None
    if gates & queue.GATES:
        since = time_of(metadata.get("creationTimestamp"))
        return _object(pod, attempt, QUEUED, _labels(pod).get(queue.NAME, ""), since)
    reason, message = _why_pending(pod)
    scheduled = _scheduled(pod)
    since = time_of(scheduled.get("lastTransitionTime") or metadata.get("creationTimestamp"))
    if reason == NOT_SCHEDULED and scheduled:
        since = None
    return _object(pod, attempt, reason, message, since, beside_running)


def _why_pending(pod: Manifest) -> tuple[str, str]:
    """Return why a pod is pending, as its status says, with the explanation there."""
    spec, status = pod["spec"], pod.get("status", {})
    for container in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") not in _ORDINARY:
            return str(waiting["reason"]), str(waiting.get("message") or "")
    scheduled = _scheduled(pod)
    if spec.get("nodeName") or scheduled.get("status") == "True":
        name = _running_init_container(pod)
        return (CREATING, "") if name is None else (INITIALIZING, name)
    is_stale = scheduled.get("reason") == _GATED and not spec.get("schedulingGates")
    if is_stale or not scheduled.get("reason"):
        return NOT_SCHEDULED, ""
    return str(scheduled["reason"]), str(scheduled.get("message") or "")


def _scheduled(pod: Manifest) -> Manifest:
    """Return the condition PodScheduled of a pod; empty if it has none."""
    return next((item for item in _conditions(pod) if item["type"] == "PodScheduled"), {})


def _conditions(item: Manifest) -> Sequence[Manifest]:
    return item.get("status", {}).get("conditions") or ()


def _running_init_container(pod: Manifest) -> str | None:
    """Return the name of the init container that runs; sidecars are none."""
    sidecars = {
        item["name"]
        for item in pod["spec"].get("initContainers") or ()
        if item.get("restartPolicy") == "Always"
    }
    return next(
        (
            str(item["name"])
            for item in pod.get("status", {}).get("initContainerStatuses") or ()
            if "running" in item.get("state", {}) and item["name"] not in sidecars
        ),
        None,
    )


def _object(
    item: Manifest,
    attempt: int | None,
    reason: str,
    message: str = "",
    since: datetime | None = None,
    beside_running: bool = False,
) -> WaitingObject:
    metadata: Mapping[str, Any] = item["metadata"]
    return WaitingObject(
        kind=item["kind"],
        name=metadata["name"],
        uid=metadata["uid"],
        role=_labels(item).get(labels.JOB_ROLE, ""),
        attempt=attempt,
        reason=reason,
        message=message,
        since=since,
        node=item["spec"].get("nodeName"),
        finalizers=tuple(metadata.get("finalizers") or ()),
        beside_running=beside_running,
        claims=() if item["spec"].get("nodeName") else tuple(_claims(item)),
    )


def _claims(item: Manifest) -> Iterator[str]:
    """Yield the names of the claims that a pod mounts."""
    for volume in item["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield str(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            yield f"{item['metadata']['name']}-{volume['name']}"


def time_of(text: str | None) -> datetime | None:
    """Read a time of Kubernetes as a status keeps it, in whole seconds; None without one."""
    if text is None:
        return None
    return datetime.fromisoformat(text).astimezone(UTC).replace(microsecond=0)


def _labels(item: Manifest) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}
