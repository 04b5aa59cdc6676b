"""The first step of a reconcile: sort Kubernetes-shaped children into buckets.

A cluster returns every object that has the job's name label or holds a name that the job needs. An
object is the job's if the UID of its owner is the job's, and the number of its attempt is one that
the job can have reached: users can forge both. If it has a deletionTimestamp it stays in its bucket
as terminating, because the next attempt waits for it, but no action names it.

One bucket is what waits: pods that do not start or do not go, and Jobs without pods. The policy
`waiting` says why. Some reasons are only in Events, and a refusal only in the answer to a request:
a cluster that knows those adds them to the `Observed`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from imagenet_operator.manifests import labels, names, volumes
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.manifests.protection import DISRUPTION_BUDGET, NETWORK_POLICY
from imagenet_operator.reconcile.policies import gang, members, version_skew
from imagenet_operator.reconcile.types import (
    CREATING,
    INITIALIZING,
    NO_PODS,
    NOT_SCHEDULED,
    QUEUED,
    TERMINATING,
    Attempt,
    Capacity,
    Claim,
    HeldPod,
    Manifest,
    MemberPod,
    Observed,
    Phase,
    PreparationJob,
    Reference,
    WaitingObject,
)
from imagenet_spec.resource import ImageNetJob, queue
from imagenet_spec.resource.fields import ATTEMPT_DIGITS

ROLE_ORDER = ("scheduler", "server", "rendezvous", "worker")
"""The order in which an attempt's members are listed; other roles follow by name."""

DISRUPTION_REASONS = frozenset(
    {
        "Evicted",  # the kubelet, under pressure on its node
        "NodeLost",  # the node controller, before pod garbage collection existed
        "Shutdown",  # the kubelet before 1.22, for the same
        "Terminated",  # the kubelet's graceful node shutdown
        "Preempting",  # the kubelet, making room for a critical pod
        *members.REJECTIONS,
    }
)
"""Values of a pod's ``status.reason`` whose cause is the cluster, not the program."""

_PLACE = {
    "Job": {labels.JOB_ROLE},
    "Service": {labels.ATTEMPT},
    NETWORK_POLICY: {labels.JOB_ROLE},
    DISRUPTION_BUDGET: {labels.ATTEMPT},
    "Pod": {labels.ATTEMPT, labels.JOB_ROLE, labels.REPLICA_INDEX},
}
"""The labels by which an object of a kind is sorted."""

_NUMBER = re.compile(f"0|[1-9][0-9]{{0,{ATTEMPT_DIGITS - 1}}}")
"""A number as a builder writes it into a label: without leading zeros, and not too long."""

_SHARED = ("Service", NETWORK_POLICY, DISRUPTION_BUDGET)
"""The kinds of which an attempt has one object each."""

_GATED: Final = "SchedulingGated"
"""The scheduler's reason of a pod with a gate; it stays until the scheduler handles the pod."""

_ORDINARY: Final = frozenset({None, CREATING, INITIALIZING})
"""Reasons of a container that is on its way."""


def sort(
    job: ImageNetJob,
    children: Iterable[Manifest],
    *,
    unreachable_nodes: frozenset[str] = frozenset(),
    absent: frozenset[str] = frozenset(),
    free: Capacity | None = None,
) -> Observed:
    """Sort what was seen around one job into buckets.

    Objects of a kind that no builder makes are ignored. Unreachable nodes are NotReady, gone or out
    of service. `absent` claims are those that the job names and that do not exist.
    """
    owned: list[Manifest] = []
    others: list[Manifest] = []
    asked_for, last = volumes.claim_names(job), version_skew.last_attempt(job.status)
    for item in children:
        is_child = is_ours(item, job, asked_for) and not (
            _has_attempt(item) and _attempt(item) > last
        )
        (owned if is_child else others).append(item)
    # The pods of the job's Jobs, by the Job's UID, apart from objects of others.
    pods_by_job: dict[str, list[Manifest]] = {
        item["metadata"]["uid"]: [] for item in owned if item["kind"] == "Job"
    }
    foreign: dict[tuple[str, str], str] = {}
    for item in others:
        if item["kind"] == "Pod" and labels.owner_uid(item) in pods_by_job:
            pods_by_job[str(labels.owner_uid(item))].append(item)
        else:
            foreign[item["kind"], item["metadata"]["name"]] = _whose(item)
    jobs = [
        _preparation_job(item, pods_by_job[item["metadata"]["uid"]], unreachable_nodes)
        for item in owned
        if item["kind"] == "Job"
    ]
    return Observed(
        jobs={found.role: found for found in jobs},
        attempts=attempts_of(job, owned, unreachable_nodes),
        protection=tuple(
            _reference(item)
            for item in owned
            if item["kind"] == NETWORK_POLICY and not _has_attempt(item) and not _is_leaving(item)
        ),
        claims={claim.name: claim for claim in map(_claim, _claim_manifests(owned))},
        access={
            item["metadata"]["name"]: tuple(item["spec"].get("accessModes") or ())
            for item in _claim_manifests(owned + others)
        },
        absent=absent,
        foreign=foreign,
        free=free,
        unreachable_nodes=unreachable_nodes,
        waiting=waiting_objects(owned, pods_by_job, unreachable_nodes),
    )


def attempts_of(
    job: ImageNetJob, owned: Iterable[Manifest], unreachable_nodes: frozenset[str]
) -> dict[int, Attempt]:
    """Return the attempts by number, each with its members."""
    members: dict[int, list[MemberPod]] = defaultdict(list)
    shared: dict[int, list[Reference]] = defaultdict(list)
    for item in owned:
        if item["kind"] == "Pod":
            member = _member(job, item, unreachable_nodes)
            members[member.attempt].append(member)
        elif item["kind"] in _SHARED and _has_attempt(item) and not _is_leaving(item):
            shared[_attempt(item)].append(_reference(item))
    return {
        number: Attempt(
            number, tuple(sorted(members[number], key=_position)), tuple(shared[number])
        )
        for number in sorted(members.keys() | shared.keys())
    }


def _position(member: MemberPod) -> tuple[int, str, int]:
    order = ROLE_ORDER.index(member.role) if member.role in ROLE_ORDER else len(ROLE_ORDER)
    return order, member.role, member.index


def _whose(item: Manifest) -> str:
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner['kind']} {owner['name']} (UID {owner['uid']})"
    return "another owner"


def _labels(item: Manifest) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def _reference(item: Manifest) -> Reference:
    return Reference(item["kind"], item["metadata"]["name"], item["metadata"]["uid"])


def _is_leaving(item: Manifest) -> bool:
    return "deletionTimestamp" in item["metadata"]


def _time_of(text: str | None) -> datetime | None:
    """Read a time of Kubernetes as a status keeps it, in whole seconds; None without one."""
    if text is None:
        return None
    return datetime.fromisoformat(text).astimezone(UTC).replace(microsecond=0)


def _has_attempt(item: Manifest) -> bool:
    return labels.ATTEMPT in _labels(item)


def _attempt(item: Manifest) -> int:
    return int(_labels(item)[labels.ATTEMPT])


def is_ours(item: Manifest, job: ImageNetJob, asked_for: Collection[str]) -> bool:
    """Whether an object is this job's and has the labels that it is sorted by.

    A claim without an owner may be left from a former job of the same name. It is this job's if
    this job asks for it.
    """
    if item["kind"] == "PersistentVolumeClaim" and labels.owner_uid(item) is None:
        is_of_its_name = _labels(item).get(labels.JOB_NAME) == job.metadata.name
        return is_of_its_name and item["metadata"]["name"] in asked_for
    return labels.owner_uid(item) == job.metadata.uid and _has_its_place(item, job.metadata.name)


def _has_its_place(item: Manifest, job_name: str) -> bool:
    """Whether an object has the labels that it is sorted by, and a name that fits them.

    Anyone who may edit an object can forge its labels, but not its name.
    """
    found = _labels(item)
    if not _PLACE.get(item["kind"], set()) <= found.keys():
        return False
    if labels.ATTEMPT not in found:
        return True
    name, numbers = f"{job_name}-r{found[labels.ATTEMPT]}", [found[labels.ATTEMPT]]
    if item["kind"] == "Pod":
        index = found[labels.REPLICA_INDEX]
        name = f"{name}-{found[labels.JOB_ROLE]}-{index}"
        numbers += [index, found.get(labels.GENERATION, "0")]
    return item["metadata"]["name"] == name and all(map(_NUMBER.fullmatch, numbers))


def _claim_manifests(items: Iterable[Manifest]) -> list[Manifest]:
    return [item for item in items if item["kind"] == "PersistentVolumeClaim"]


def _claim(item: Manifest) -> Claim:
    metadata = item["metadata"]
    return Claim(
        name=metadata["name"],
        uid=metadata["uid"],
        owners=tuple(metadata.get("ownerReferences") or ()),
        terminating=_is_leaving(item),
        pending=item.get("status", {}).get("phase", "Pending") == "Pending",
        created=_time_of(metadata.get("creationTimestamp")),
        modes=tuple(item["spec"].get("accessModes") or ()),
        storage_class=item["spec"].get("storageClassName"),
    )


def _conditions(item: Manifest) -> dict[str, Manifest]:
    """The conditions that are true, by type."""
    return {
        condition["type"]: condition
        for condition in item.get("status", {}).get("conditions") or ()
        if condition["status"] == "True"
    }


def _preparation_job(
    item: Manifest, pods: Sequence[Manifest], unreachable_nodes: frozenset[str]
) -> PreparationJob:
    metadata, spec, status = item["metadata"], item["spec"], item.get("status", {})
    conditions = _conditions(item)
    failed = conditions.get("Failed")
    ending = [
        pod
        for pod in pods
        if _is_leaving(pod) and _phase(pod) not in (Phase.SUCCEEDED, Phase.FAILED)
    ]
    stranded = [pod for pod in ending if pod["spec"].get("nodeName") in unreachable_nodes]
    held = tuple(found for pod in pods if (found := _held(pod)) is not None)
    completions = spec.get("completions", 1)
    succeeded = status.get("succeeded", 0) + sum(pod.succeeded for pod in held)
    return PreparationJob(
        role=_labels(item)[labels.JOB_ROLE],
        name=metadata["name"],
        uid=metadata["uid"],
        # The Job's own count leaves out those that are still ending.
        active=status.get("active", 0) + len(ending) - len(stranded),
        succeeded=succeeded,
        failed=status.get("failed", 0),
        completions=completions,
        parallelism=spec.get("parallelism", 1),
        complete="Complete" in conditions or (bool(held) and succeeded >= completions),
        failure=None if failed is None else _failure(failed, pods),
        message=next(
            (_termination_message(pod) for pod in pods if _phase(pod) is Phase.SUCCEEDED), None
        ),
        suspended=bool(spec.get("suspend")),
        suspended_by_others=_is_suspended_by_others(item),
        queued=queue.NAME in _labels(item),
        terminating=_is_leaving(item),
        stranded=bool(stranded),
        held=held,
    )


def _is_suspended_by_others(job: Manifest) -> bool:
    """Whether another controller has suspended a Job: Kueue does so with each one in a queue."""
    found = _labels(job)
    is_ours = labels.SUSPENDED in found and queue.NAME not in found
    return bool(job["spec"].get("suspend")) and not is_ours


def _held(pod: Manifest) -> HeldPod | None:
    """Return a pod that runs on after its program; None for any other.

    A native sidecar is an init container, and the kubelet ends it after the program.
    """
    status = pod.get("status", {})
    if _is_leaving(pod) or status.get("phase") in ("Succeeded", "Failed") or not _terminated(pod):
        return None
    running = tuple(
        item["name"]
        for item in status["containerStatuses"]
        if item["name"] != names.CONTAINER and "running" in item.get("state", {})
    )
    if not running:
        return None
    metadata = pod["metadata"]
    return HeldPod(metadata["name"], metadata["uid"], running, _phase(pod) is Phase.SUCCEEDED)


def _failure(condition: Manifest, pods: Sequence[Manifest]) -> str:
    """Return why a Job failed: the last termination message, else the condition's message."""
    messages = [
        (_terminated(pod).get("finishedAt") or "", pod["metadata"]["name"], message)
        for pod in pods
        if _phase(pod) is Phase.FAILED and (message := _termination_message(pod))
    ]
    if messages:
        return max(messages)[2]
    return str(condition.get("message") or condition.get("reason") or "the Job failed")


def _main_container(pod: Manifest) -> Manifest:
    statuses: Sequence[Manifest] = pod.get("status", {}).get("containerStatuses") or ()
    return next((status for status in statuses if status["name"] == names.CONTAINER), {})


def _terminated(pod: Manifest) -> Manifest:
    terminated: Manifest = _main_container(pod).get("state", {}).get("terminated") or {}
    return terminated


def _termination_message(pod: Manifest, job: ImageNetJob | None = None) -> str:
    """The program's termination message, or an empty text; the job is given for its members."""
    role = _labels(pod).get(labels.JOB_ROLE, "")
    if members.exceeds_storage(pod.get("status", {})):
        return members.storage_remedy(pod["status"], role)
    if _terminated(pod).get("reason") == members.OOM_KILLED:
        return members.memory_remedy(role, job)
    return str(_terminated(pod).get("message") or "").strip()


def _phase(pod: Manifest) -> Phase:
    """The phase of a pod's program.

    The end of the program's container decides: an injected sidecar may keep the pod Running.
    """
    status = pod.get("status", {})
    if members.exceeds_storage(status):
        return Phase.FAILED
    if terminated := _terminated(pod):
        return Phase.SUCCEEDED if terminated.get("exitCode") == 0 else Phase.FAILED
    match status.get("phase"):
        case "Succeeded":
            return Phase.SUCCEEDED
        case "Failed":
            return Phase.FAILED
        case "Running" | "Unknown":
            return Phase.RUNNING
    bound = "PodScheduled" in _conditions(pod) or pod["spec"].get("nodeName")
    return Phase.BOUND if bound else Phase.PENDING


def _member(job: ImageNetJob, pod: Manifest, unreachable_nodes: frozenset[str]) -> MemberPod:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    terminated, state = _terminated(pod), _main_container(pod).get("state", {})
    waiting, running = state.get("waiting") or {}, state.get("running") or {}
    terminating, out_of_reach = _is_leaving(pod), spec.get("nodeName") in unreachable_nodes
    is_finished = status.get("phase") in ("Succeeded", "Failed")
    statuses = status.get("containerStatuses") or ()
    ended = [item for item in statuses if "terminated" in item.get("state", {})]
    # The pod's phase follows a moment after the last container.
    has_ended = len(ended) == len(spec.get("containers") or ()) > 0
    reason = status.get("reason") or terminated.get("reason") or waiting.get("reason")
    # Kueue sets this condition before it deletes the pod.
    evicted = None
    if (queued := _conditions(pod).get(queue.EVICTED)) is not None:
        evicted = str(queued.get("message") or queued.get("reason") or "")
    return MemberPod(
        attempt=_attempt(pod),
        role=_labels(pod)[labels.JOB_ROLE],
        index=int(_labels(pod)[labels.REPLICA_INDEX]),
        generation=int(_labels(pod).get(labels.GENERATION, 0)),
        name=metadata["name"],
        uid=metadata["uid"],
        phase=_phase(pod),
        live=not is_finished and not has_ended,
        finished=is_finished,
        node=spec.get("nodeName"),
        exit_code=terminated.get("exitCode"),
        reason=members.STORAGE_EXCEEDED if members.exceeds_storage(status) else reason,
        message=_termination_message(pod, job) or status.get("message") or waiting.get("message"),
        disrupted=_disruption(pod),
        evicted=evicted,
        terminating=terminating,
        cut_short=_is_cut_short(pod, _time_of(terminated.get("finishedAt"))),
        out_of_reach=out_of_reach,
        gone=terminating and out_of_reach,
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        started_at=_time_of(running.get("startedAt") or terminated.get("startedAt")),
        finished_at=_time_of(terminated.get("finishedAt")),
        leaves_result=_labels(pod).get(labels.RESULT) == labels.RESULT_EXPECTED,
        requests=gang.requests(spec),
        tolerations=gang.tolerations_of(spec),
    )


def _is_cut_short(pod: Manifest, finished_at: datetime | None) -> bool:
    """Whether the program did not end before its eviction or deletion was requested.

    Both times are in whole seconds. A program that ends in the second of the request counts as cut
    short: then it runs again, which does no harm. An unknown time counts as an early request.
    """
    requests: list[datetime | None] = []
    if (target := _conditions(pod).get("DisruptionTarget")) is not None:
        requests.append(_time_of(target.get("lastTransitionTime")))
    elif _disruption(pod) is not None:
        requests.append(None)
    if _is_leaving(pod):
        metadata = pod["metadata"]
        grace_period = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        deleted_at = _time_of(metadata["deletionTimestamp"])
        requests.append(None if deleted_at is None else deleted_at - grace_period)
    return any(time is None or finished_at is None or finished_at >= time for time in requests)


def _disruption(pod: Manifest) -> str | None:
    """Why the cluster disrupted a pod: the reason of DisruptionTarget, or the pod's own."""
    target = _conditions(pod).get("DisruptionTarget")
    if target is not None:
        return str(target.get("reason") or "DisruptionTarget")
    status = pod.get("status", {})
    reason = None if members.exceeds_storage(status) else status.get("reason")
    if reason in DISRUPTION_REASONS or str(reason).startswith(members.NO_ROOM):
        return str(reason)
    return None


def waiting_objects(
    owned: Iterable[Manifest],
    pods_by_job: Mapping[str, Sequence[Manifest]],
    unreachable_nodes: frozenset[str],
) -> tuple[WaitingObject, ...]:
    """Return what waits among the objects of a job, by name.

    A deleted pod on an unreachable node counts as gone. `pods_by_job` is by the UID of a Job.
    """
    found: list[WaitingObject] = []
    for item in owned:
        if item["kind"] == "Job":
            found += _waiting_of_job(item, pods_by_job[item["metadata"]["uid"]])
        elif item["kind"] == "Pod":
            attempt = int(item["metadata"]["labels"][labels.ATTEMPT])
            found += filter(None, [waiting_pod(item, attempt)])
    remaining = (
        item for item in found if item.reason != TERMINATING or item.node not in unreachable_nodes
    )
    return tuple(sorted(remaining, key=lambda item: item.name))


def _waiting_of_job(job: Manifest, pods: Sequence[Manifest]) -> list[WaitingObject]:
    """Return the waiting pods of a Job, or the Job if it has no pod."""
    if not _conditions(job).keys().isdisjoint({"Complete", "Failed"}) or _is_leaving(job):
        return []
    if not pods:
        changed = _condition(job, "Suspended").get("lastTransitionTime")
        since = _time_of(changed or job["metadata"].get("creationTimestamp"))
        if _is_suspended_by_others(job):
            return [_waiting_object(job, None, QUEUED, _labels(job).get(queue.NAME, ""), since)]
        return (
            [] if job["spec"].get("suspend") else [_waiting_object(job, None, NO_PODS, since=since)]
        )
    runs = any(
        pod.get("status", {}).get("phase") == "Running" and not _is_leaving(pod) for pod in pods
    )
    found = [waiting_pod(pod, None, beside_running=runs) for pod in pods]
    return [item for item in found if item is not None]


def waiting_pod(
    pod: Manifest, attempt: int | None, *, beside_running: bool = False
) -> WaitingObject | None:
    """Return a pod that waits; None if it runs, has ended, or is held back by the operator."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    if _is_leaving(pod):
        if status.get("phase") in ("Succeeded", "Failed") and attempt is None:
            return None
        since = _time_of(metadata["deletionTimestamp"])
        return _waiting_object(
            pod, attempt, TERMINATING, since=since, beside_running=beside_running
        )
    if status.get("phase", "Pending") != "Pending":
        return None
    gates = {gate["name"] for gate in spec.get("schedulingGates") or ()}
    if SCHEDULING_GATE in gates:
        return None
    if gates & queue.GATES:
        since = _time_of(metadata.get("creationTimestamp"))
        return _waiting_object(pod, attempt, QUEUED, _labels(pod).get(queue.NAME, ""), since)
    reason, message = _why_pending(pod)
    scheduled = _condition(pod, "PodScheduled")
    since = _time_of(scheduled.get("lastTransitionTime") or metadata.get("creationTimestamp"))
    if reason == NOT_SCHEDULED and scheduled:
        since = None
    return _waiting_object(pod, attempt, reason, message, since, beside_running)


def _why_pending(pod: Manifest) -> tuple[str, str]:
    spec, status = pod["spec"], pod.get("status", {})
    for container in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") not in _ORDINARY:
            return str(waiting["reason"]), str(waiting.get("message") or "")
    scheduled = _condition(pod, "PodScheduled")
    if spec.get("nodeName") or scheduled.get("status") == "True":
        # A sidecar runs on beside the containers, so these do not wait for it.
        sidecars = {
            item["name"]
            for item in spec.get("initContainers") or ()
            if item.get("restartPolicy") == "Always"
        }
        running = [
            str(item["name"])
            for item in status.get("initContainerStatuses") or ()
            if "running" in item.get("state", {}) and item["name"] not in sidecars
        ]
        return (INITIALIZING, running[0]) if running else (CREATING, "")
    is_stale = scheduled.get("reason") == _GATED and not spec.get("schedulingGates")
    if is_stale or not scheduled.get("reason"):
        return NOT_SCHEDULED, ""
    return str(scheduled["reason"]), str(scheduled.get("message") or "")


def _condition(item: Manifest, kind: str) -> Manifest:
    """The condition of a type, whatever its status; empty without one."""
    found: Sequence[Manifest] = item.get("status", {}).get("conditions") or ()
    return next((condition for condition in found if condition["type"] == kind), {})


def _waiting_object(
    item: Manifest,
    attempt: int | None,
    reason: str,
    message: str = "",
    since: datetime | None = None,
    beside_running: bool = False,
) -> WaitingObject:
    metadata = item["metadata"]
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
        claims=() if item["spec"].get("nodeName") else tuple(mounted_claims(item)),
    )


def mounted_claims(item: Manifest) -> Iterator[str]:
    """Yield the names of the claims in a pod's volumes."""
    for volume in item["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield str(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            yield f"{item['metadata']['name']}-{volume['name']}"
