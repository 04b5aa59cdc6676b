"""Refund: a charge moves to the cluster if a node turns out to be lost.

A node that dies silently turns NotReady after 40 seconds or more. Its members' peers may fail
before that, so the end of the attempt is charged to the program. The pods on that node cannot be
deleted, so the next attempt waits for them, and they are still there when the node turns NotReady.

A node is suspect until it reports the end of a member. An end from before the first failure says
nothing about the node. If a suspect node becomes unreachable within `WINDOW`, the restart counts as
a disruption, even if the member's pod has vanished. A charge that would fail the job is held until
no node is suspect or the window is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.api.status import AttemptOutcome, MemberStatus
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import MemberPod, Phase

WINDOW: Final = timedelta(minutes=5)
"""The time from the end of an attempt in which the loss of a node explains it."""

_ENDED: Final = ("Succeeded", "Failed")
_REPORTED: Final = (Phase.SUCCEEDED, Phase.FAILED)


def suspects(
    members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]
) -> dict[str, MemberPod]:
    """Return the nodes whose loss may have ended an attempt, each with one of its pods.

    Args:
        members: The record at the attempt's end.
        seen: The attempt's pods that are there now, by name.
    """
    alive = _alive(members, seen)
    unfinished = [seen.get(member.name) for member in members if member.phase not in TERMINAL]
    return {
        pod.node: pod
        for pod in unfinished
        if pod is not None and pod.node is not None and pod.node not in alive
    }


def lost(
    members: Sequence[MemberStatus],
    seen: Mapping[str, MemberPod],
    unreachable_nodes: Collection[str],
) -> str | None:
    """Return a member that had not ended and is on a suspect node that cannot be reached.

    Args:
        members: The record at the attempt's end.
        seen: The attempt's pods that are there now, by name.
        unreachable_nodes: The nodes that cannot be reached.
    """
    alive = _alive(members, seen)
    for member in members:
        pod = seen.get(member.name)
        node = member.node if pod is None else pod.node
        if member.phase not in TERMINAL and node in unreachable_nodes and node not in alive:
            return member.name
    return None


def _alive(members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> set[str | None]:
    """Return the nodes that have reported the end of a member since the first failure."""
    failures = [item.finished_at for item in members if item.phase == "Failed" and item.finished_at]
    first = min(failures, default=None)
    ended = [(item.node, item.finished_at) for item in members if item.phase in _ENDED]
    ended += [
        (pod.node, pod.finished_at)
        for pod in seen.values()
        if pod.phase in _REPORTED and pod.disrupted is None
    ]
    return {node for node, time in ended if first is None or time is None or time >= first}


def is_over(outcome: AttemptOutcome, now: datetime) -> bool:
    """Whether a node that is lost now has nothing to do with the end of the attempt."""
    return now >= outcome.time + WINDOW
