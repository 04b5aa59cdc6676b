"""Members: what the status records of an attempt's pods, before anything acts on it.

An attempt starts with one entry for every pod that it needs. A terminal state stays, whatever
becomes of the pod. The record is written after all pods were created, so a pod that is absent has
vanished, even if no reconcile saw it. It is never created again: two pods of one name could write
to the same files.

Success is that every recorded worker exited with 0. A worker that vanishes after that undoes
nothing, and neither does a server or scheduler that fails after the last worker.

A program may save and exit with 0 at SIGTERM. So an exit with 0 after the eviction or the deletion
was requested is no success, unless a program of ours says that the last epoch is done. Ours exit
with 0 together, and only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from imagenet_operator.api import member_groups
from imagenet_operator.api.status import MemberStatus, ReplicaStatus
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.reconcile.types import Manifest, MemberPod, Phase

TERMINAL: Final = frozenset({"Succeeded", "Failed", "Unknown"})
"""Phases that a member does not leave."""


def planned(manifests: Iterable[Manifest]) -> tuple[MemberStatus, ...]:
    """Return the record of an attempt that starts: the pods among its manifests, none seen yet."""
    return tuple(
        MemberStatus(
            name=item["metadata"]["name"], role=item["metadata"]["labels"][labels.JOB_ROLE]
        )
        for item in manifests
        if item["kind"] == "Pod"
    )


def by_name(members: Iterable[MemberPod]) -> dict[str, MemberPod]:
    """Return the pods that are seen, by name."""
    return {member.name: member for member in members}


def recorded(
    former: Sequence[MemberStatus], seen: Mapping[str, MemberPod], now: datetime
) -> tuple[MemberStatus, ...]:
    """Return the record after this reconcile.

    Args:
        former: The record so far.
        seen: The attempt's pods that are there now, by name.
        now: The time of an end that no container reports.
    """
    pods = seen.values()
    is_done = any(pod.leaves_result for pod in pods) and (
        any(job_status.result_in(pod.message) for pod in pods if pod.role == "worker")
        or any(map(job_status.result_of, former))
    )
    return tuple(
        _recorded(member, seen.get(member.name), now, is_done=is_done) for member in former
    )


def succeeded(members: Sequence[MemberStatus]) -> bool:
    """Return whether every worker among the recorded members succeeded."""
    workers = [member for member in members if member.role == "worker"]
    return bool(workers) and all(worker.phase == "Succeeded" for worker in workers)


def replica_statuses(members: Sequence[MemberStatus]) -> dict[str, ReplicaStatus]:
    """Return role → how many are active (pending or running), succeeded, failed (or vanished)."""
    phases: dict[str, list[str]] = {}
    for member in members:
        phases.setdefault(member.role, []).append(member.phase)
    return {
        role: ReplicaStatus(
            active=sum(phase in ("Pending", "Running") for phase in found),
            succeeded=found.count("Succeeded"),
            failed=found.count("Failed") + found.count("Unknown"),
        )
        for role, found in phases.items()
    }


def without_active(statuses: Mapping[str, ReplicaStatus]) -> dict[str, ReplicaStatus]:
    """Return the counts of a job that has ended: a pod that still runs is not active."""
    return {role: found.model_copy(update={"active": 0}) for role, found in statuses.items()}


def _recorded(
    former: MemberStatus, pod: MemberPod | None, now: datetime, *, is_done: bool
) -> MemberStatus:
    if former.phase in TERMINAL:
        return former
    if pod is None:
        return _ended(former, "Vanished", now)
    if not member_groups.is_same(former.uid, pod.uid):
        return _ended(former, "Replaced", now)
    is_running = former.phase == "Running" and pod.phase is Phase.RUNNING and not pod.gone
    if is_running and member_groups.is_lean(former):
        return former
    changes: dict[str, Any] = {"uid": former.uid or pod.uid}
    whereabouts = {"node": pod.node, "started_at": pod.started_at or former.started_at}
    if pod.phase in (Phase.SUCCEEDED, Phase.FAILED):
        is_success = pod.phase is Phase.SUCCEEDED
        is_stopped = is_success and pod.cut_short and not is_done
        changes |= whereabouts | {
            "phase": "Failed" if is_stopped else pod.phase.value,
            "exit_code": pod.exit_code,
            "reason": pod.disrupted or ("Deleted" if is_stopped else pod.reason),
            "message": member_groups.tail(pod.message or "", member_groups.WORDS_MAXIMUM) or None,
            "finished_at": pod.finished_at or now,
        }
    elif pod.gone:
        changes |= {"phase": "Unknown", "reason": pod.disrupted or "NodeLost", "finished_at": now}
    elif pod.phase is Phase.RUNNING:
        changes |= whereabouts | {"phase": "Running"}
    return former.model_copy(update=changes)


def _ended(former: MemberStatus, reason: str, now: datetime) -> MemberStatus:
    return former.model_copy(update={"phase": "Unknown", "reason": reason, "finished_at": now})
