"""The first step of a reconcile: sort Kubernetes-shaped children into buckets.

A cluster returns every object that has the job's name label or holds a name that the job needs.
`sort` finds the job's own among them, their kind and their state. `decide` reads the buckets, never
a manifest. An object is the job's if the UID of its owner is the job's, and the number of its
attempt is one that the job can have reached: users can forge both. If it has a
deletionTimestamp it stays in its bucket as terminating, because the next attempt waits for it, but
no action names it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from imagenet_operator.api import ImageNetJob, queue
from imagenet_operator.api.names import ATTEMPT_DIGITS
from imagenet_operator.manifests import labels, names, volumes
from imagenet_operator.manifests.protection import DISRUPTION_BUDGET, NETWORK_POLICY
from imagenet_operator.reconcile import waiting_objects
from imagenet_operator.reconcile.policies import gang, members, version_skew
from imagenet_operator.reconcile.types import (
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
)
from imagenet_operator.reconcile.waiting_objects import time_of

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


def sort(
    job: ImageNetJob,
    children: Iterable[Manifest],
    *,
    unreachable_nodes: frozenset[str] = frozenset(),
    absent: frozenset[str] = frozenset(),
    free: Capacity | None = None,
) -> Observed:
    """Sort what was seen around one job into buckets.

    Args:
        job: Whose children they may be.
        children: Objects as JSON, in any order; kinds that no builder makes are ignored.
        unreachable_nodes: Nodes that are NotReady, gone or out of service.
        absent: Claims that the job names and that do not exist.
        free: Free capacity of each node; None if it is not known.
    """
    owned: list[Manifest] = []
    others: list[Manifest] = []
    asked_for, last = volumes.claim_names(job), version_skew.last_attempt(job.status)
    for item in children:
        is_ours = _is_ours(item, job, asked_for) and not (
            _has_attempt(item) and _attempt(item) > last
        )
        (owned if is_ours else others).append(item)
    pods_by_job, foreign = _apart(owned, others)
    jobs = [
        _preparation_job(item, pods_by_job[item["metadata"]["uid"]], unreachable_nodes)
        for item in owned
        if item["kind"] == "Job"
    ]
    return Observed(
        jobs={found.role: found for found in jobs},
        attempts=_attempts(job, owned, unreachable_nodes),
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
        waiting=waiting_objects.find(owned, pods_by_job, unreachable_nodes),
    )


def _apart(
    owned: Iterable[Manifest], others: Iterable[Manifest]
) -> tuple[dict[str, list[Manifest]], dict[tuple[str, str], str]]:
    """Separate the pods of the job's Jobs, by the Job's UID, from objects of others."""
    pods_by_job: dict[str, list[Manifest]] = {
        item["metadata"]["uid"]: [] for item in owned if item["kind"] == "Job"
    }
    foreign: dict[tuple[str, str], str] = {}
    for item in others:
        if item["kind"] == "Pod" and labels.owner_uid(item) in pods_by_job:
            pods_by_job[str(labels.owner_uid(item))].append(item)
        else:
            foreign[item["kind"], item["metadata"]["name"]] = _whose(item)
    return pods_by_job, foreign


def _attempts(
    job: ImageNetJob, owned: Iterable[Manifest], unreachable_nodes: frozenset[str]
) -> dict[int, Attempt]:
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


def _has_attempt(item: Manifest) -> bool:
    return labels.ATTEMPT in _labels(item)


def _attempt(item: Manifest) -> int:
    return int(_labels(item)[labels.ATTEMPT])


def _is_ours(item: Manifest, job: ImageNetJob, asked_for: Collection[str]) -> bool:
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
        created=time_of(metadata.get("creationTimestamp")),
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
        suspended_by_others=waiting_objects.is_suspended_by_others(item),
        queued=queue.NAME in _labels(item),
        terminating=_is_leaving(item),
        stranded=bool(stranded),
        held=held,
    )


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
    """The status of the container that runs the program."""
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
        evicted=_eviction(pod),
        terminating=terminating,
        cut_short=_is_cut_short(pod, time_of(terminated.get("finishedAt"))),
        out_of_reach=out_of_reach,
        gone=terminating and out_of_reach,
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        started_at=time_of(running.get("startedAt") or terminated.get("startedAt")),
        finished_at=time_of(terminated.get("finishedAt")),
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
        requests.append(time_of(target.get("lastTransitionTime")))
    elif _disruption(pod) is not None:
        requests.append(None)
    if _is_leaving(pod):
        metadata = pod["metadata"]
        grace_period = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        deleted_at = time_of(metadata["deletionTimestamp"])
        requests.append(None if deleted_at is None else deleted_at - grace_period)
    return any(time is None or finished_at is None or finished_at >= time for time in requests)


def _eviction(pod: Manifest) -> str | None:
    """Why Kueue ends a pod: the message of the condition that it sets before it deletes the pod."""
    target = _conditions(pod).get(queue.EVICTED)
    return None if target is None else str(target.get("message") or target.get("reason") or "")


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
