"""Gang: all members of an attempt get nodes, or none keeps one.

Timeout (the default): if not all members are bound in scheduleTimeoutSeconds, the attempt is
withdrawn, uncharged. The next one starts after a jittered wait, so that two half-placed jobs cannot
block each other permanently.

A job with `workers.minReplicas` waits for waitSeconds instead, and the next attempt has fewer
workers (`elastic`).

No time counts while another controller, such as a queue, holds a member back.

Wait: a scheduling gate holds the pods back until all of them fit, and is then lifted for all at
once. From then on the timeout holds too, because the fit is an estimate. Until then there is no
timeout, and the condition Running names the member that has no room. An attempt that may have
fewer workers has one from its start.

An attempt whose creation was cut off (the operator died, a quota was exceeded) is withdrawn in the
same way, never completed: a missing pod may have existed, and may still run under its name on a
node that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.api.status import MemberStatus, TrainingStatus
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile.policies import capacity
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import Capacity, Charge, End, MemberPod, Patch, Phase

CUT_OFF = End("CreationCutOff", "not all pods were created; trying again later", Charge.WITHDRAWAL)
"""The end of an attempt that is not recorded in the status and lacks pods."""

OVER_QUOTA: Final = "QuotaExceeded"
"""The reason of an attempt of which a ResourceQuota did not admit all pods, of a job that may have
fewer workers."""

TIMED_OUT: Final = "GangTimedOut"
"""The reason of an attempt whose members were not all bound in time."""


@dataclass(frozen=True)
class Limit:
    """How long an attempt may take until all of its members are bound.

    Attributes:
        seconds: From the moment that the scheduler may bind them.
        can_shrink: Whether the next attempt may have fewer workers. Then the time counts from the
            start of the attempt, also while gates hold the pods back.
    """

    seconds: int
    can_shrink: bool = False


def missing(seen: Mapping[str, MemberPod], free: Capacity | None) -> str | None:
    """Return what the gang waits for before its gates are lifted; None if they can be lifted.

    Once one gate is lifted the others follow: the decision was made, and a reconcile was cut off
    while it was applied. If free capacity is not known, the gates are lifted as soon as all pods
    exist.
    """
    gated = _gated(seen)
    is_begun = len(gated) < len(seen)
    return None if is_begun or free is None else capacity.shortage(gated, free)


def lift_gates(seen: Mapping[str, MemberPod]) -> tuple[Patch, ...]:
    """Return the patches that lift the gates of all members."""
    return tuple(_without_gate(member) for member in _gated(seen))


def is_held_back(seen: Mapping[str, MemberPod]) -> bool:
    """Whether the scheduler cannot place the whole attempt yet."""
    return any(member.gates for member in seen.values())


def is_held_by_another(seen: Iterable[MemberPod]) -> bool:
    """Whether another controller, such as a queue, holds a member back."""
    return any(member.foreign_gates for member in seen)


def is_bound(members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> bool:
    """Whether every member has a node, or had one."""
    return all(
        member.phase in TERMINAL
        or (member.name in seen and seen[member.name].phase is not Phase.PENDING)
        for member in members
    )


def deadline(training: TrainingStatus, limit: Limit) -> datetime | None:
    """Return when the attempt is withdrawn unless it is bound before; None if it is bound."""
    since = training.schedulable_time
    if since is None and limit.can_shrink:
        since = training.start_time
    if since is None or training.bound_time is not None:
        return None
    return since + timedelta(seconds=limit.seconds)


def verdict(training: TrainingStatus, limit: Limit, now: datetime) -> End | None:
    """Return the end of an attempt that was not bound in time; None otherwise."""
    end = deadline(training, limit)
    if end is None or now < end:
        return None
    then = "the next attempt may have fewer workers" if limit.can_shrink else "trying again later"
    message = f"not all members were bound to nodes in {limit.seconds} s; {then}"
    return End(TIMED_OUT, message, Charge.WITHDRAWAL)


def _gated(seen: Mapping[str, MemberPod]) -> list[MemberPod]:
    return [member for member in seen.values() if SCHEDULING_GATE in member.gates]


def _without_gate(member: MemberPod) -> Patch:
    kept = [{"name": name} for name in member.gates if name != SCHEDULING_GATE]
    return Patch("Pod", member.name, member.uid, {"spec": {"schedulingGates": kept}})
