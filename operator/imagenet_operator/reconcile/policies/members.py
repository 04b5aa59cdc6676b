"""Members: what the status records of an attempt's pods, before anything acts on it.

The record is fixed when an attempt starts (one entry for every pod that it needs) and only ever
moves forward: a terminal state stays whatever becomes of the pod. Because the record is written
after all pods were created, a pod that is not there has vanished, even if no pass ever saw it, and
is never created again: two pods of one name could otherwise write to the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from imagenet_operator.api.status import MemberStatus
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Manifest, Member, Phase

TERMINAL: Final = frozenset({"Succeeded", "Failed", "Unknown"})
"""Phases after which nothing more comes from a member."""

_MESSAGE_MAXIMUM = 1024
"""Characters of a member's last words that are kept: a status is one object of all members."""


def planned(manifests: Iterable[Manifest]) -> tuple[MemberStatus, ...]:
    """Return the record of an attempt that starts: the pods among its manifests, none seen yet."""
    return tuple(
        MemberStatus(
            name=item["metadata"]["name"], role=item["metadata"]["labels"][labels.JOB_ROLE]
        )
        for item in manifests
        if item["kind"] == "Pod"
    )


def by_name(members: Iterable[Member]) -> dict[str, Member]:
    """Return the pods that are seen, by name."""
    return {member.name: member for member in members}


def recorded(
    former: Sequence[MemberStatus], seen: Mapping[str, Member], now: datetime
) -> tuple[MemberStatus, ...]:
    """Return the record after another look.

    Args:
        former: The record so far.
        seen: The attempt's pods that are there now, by name.
        now: The time of an end that no container tells.
    """
    return tuple(_recorded(member, seen.get(member.name), now) for member in former)


def _recorded(former: MemberStatus, pod: Member | None, now: datetime) -> MemberStatus:
    if former.phase in TERMINAL:
        return former
    if pod is None:
        return _ended(former, "Vanished", now)
    if former.uid not in (None, pod.uid):
        return _ended(former, "Replaced", now)
    changes: dict[str, Any] = {"uid": pod.uid}
    whereabouts = {"node": pod.node, "started_at": pod.started_at or former.started_at}
    if pod.phase in (Phase.SUCCEEDED, Phase.FAILED):
        changes |= whereabouts | {
            "phase": pod.phase.value,
            "exit_code": pod.exit_code,
            "reason": pod.disrupted or pod.reason,
            "message": pod.message[-_MESSAGE_MAXIMUM:] if pod.message else None,
            "finished_at": pod.finished_at or now,
        }
    elif pod.gone:
        changes |= {"phase": "Unknown", "reason": pod.disrupted or "NodeLost", "finished_at": now}
    elif pod.phase is Phase.RUNNING:
        changes |= whereabouts | {"phase": "Running"}
    return former.model_copy(update=changes)


def _ended(former: MemberStatus, reason: str, now: datetime) -> MemberStatus:
    return former.model_copy(update={"phase": "Unknown", "reason": reason, "finished_at": now})
