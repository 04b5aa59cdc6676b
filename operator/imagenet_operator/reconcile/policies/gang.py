"""Gang: all members of an attempt get nodes, or none keeps one.

Timeout (the default): if not all members are bound in scheduleTimeoutSeconds, the attempt is
withdrawn, uncharged. The next one starts after a jittered wait, so that two half-placed jobs cannot
block each other permanently.

Wait: a scheduling gate holds the pods back until all of them fit, and is then lifted for all at
once. From then on the timeout holds too, because the fit is an estimate. Until then there is no
timeout, and the condition Running names the member that has no room.

An attempt whose creation was cut off (the operator died, a quota was exceeded) is withdrawn in the
same way, never completed: a missing pod may have existed, and may still run under its name on a
node that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from imagenet_operator.api.run_policy import SchedulingPolicy
from imagenet_operator.api.status import MemberStatus, TrainingStatus
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile.policies import capacity
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import Capacity, Charge, End, MemberPod, Patch, Phase

CUT_OFF = End("CreationCutOff", "not all pods were created; trying again later", Charge.WITHDRAWAL)
"""The end of an attempt that is not recorded in the status and lacks pods."""


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


def is_bound(members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> bool:
    """Whether every member has a node, or had one."""
    return all(
        member.phase in TERMINAL
        or (member.name in seen and seen[member.name].phase is not Phase.PENDING)
        for member in members
    )


def deadline(training: TrainingStatus, policy: SchedulingPolicy) -> datetime | None:
    """Return when the attempt is withdrawn unless it is bound before; None if it is bound."""
    since = training.schedulable_time
    if since is None or training.bound_time is not None:
        return None
    return since + timedelta(seconds=policy.schedule_timeout_seconds)


def verdict(training: TrainingStatus, policy: SchedulingPolicy, now: datetime) -> End | None:
    """Return the end of an attempt that was not bound in time; None otherwise."""
    limit = deadline(training, policy)
    if limit is None or now < limit:
        return None
    seconds = policy.schedule_timeout_seconds
    message = f"not all members were bound to nodes in {seconds} s; trying again later"
    return End("GangTimedOut", message, Charge.WITHDRAWAL)


def _gated(seen: Mapping[str, MemberPod]) -> list[MemberPod]:
    return [member for member in seen.values() if SCHEDULING_GATE in member.gates]


def _without_gate(member: MemberPod) -> Patch:
    kept = [{"name": name} for name in member.gates if name != SCHEDULING_GATE]
    return Patch("Pod", member.name, member.uid, {"spec": {"schedulingGates": kept}})
