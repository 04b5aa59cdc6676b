"""Refund: a charge moves to the cluster if a node turns out to be lost.

A node that dies silently turns NotReady after 40 seconds or more. Its members' peers may fail
before that, so the end of the attempt is charged to the program. The pods on that node cannot be
deleted, so the next attempt waits for them, and they are still there when the node turns NotReady.

A node is suspect while it reports the end of no member. If a suspect node becomes unreachable
within `WINDOW`, the restart counts as a disruption. A charge that would fail the job is held until
no node is suspect or the window is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.api.status import AttemptOutcome, MemberStatus
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import MemberPod, Phase

WINDOW: Final = timedelta(minutes=5)
"""The time from the end of an attempt in which the loss of a node explains it."""

_REPORTED: Final = (Phase.SUCCEEDED, Phase.FAILED)


def suspects(
    members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]
) -> dict[str, MemberPod]:
    """Return the nodes whose loss may have ended an attempt, each with one of its pods.

    Args:
        members: The record at the attempt's end.
        seen: The attempt's pods that are there now, by name.
    """
    alive = {member.node for member in members if member.phase in ("Succeeded", "Failed")}
    alive |= {pod.node for pod in seen.values() if pod.phase in _REPORTED and pod.disrupted is None}
    unfinished = [seen.get(member.name) for member in members if member.phase not in TERMINAL]
    return {
        pod.node: pod
        for pod in unfinished
        if pod is not None and pod.node is not None and pod.node not in alive
    }


def lost(found: Mapping[str, MemberPod]) -> MemberPod | None:
    """Return a pod on a suspect node that cannot be reached, if there is one."""
    return next((pod for pod in found.values() if pod.out_of_reach), None)


def is_over(outcome: AttemptOutcome, now: datetime) -> bool:
    """Whether a node that is lost now has nothing to do with the end of the attempt."""
    return now >= outcome.time + WINDOW
