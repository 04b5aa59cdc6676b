"""Gang: all members of an attempt get nodes, or none keeps one.

An attempt whose creation was cut off (the operator died, a quota was full) is not completed but
withdrawn in the same way: a pod of it that is missing may have existed and may, on a node that
cannot be reached, still be at work under its name.

Timeout (the default): an attempt that is not bound as a whole in scheduleTimeoutSeconds is
withdrawn, uncharged, and comes back after a jittered wait, so that two half-placed jobs cannot
block each other for ever. Wait: the pods are held back by a scheduling gate, which is lifted for
all at once when they fit; from then on the timeout holds as well, because what fits is an estimate.
While they do not fit there is no timeout, and the condition Running says which member has no room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from imagenet_operator.api.run_policy import SchedulingPolicy
from imagenet_operator.api.status import MemberStatus, TrainingStatus
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile.policies import capacity
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import Capacity, Charge, End, Member, Patch, Phase

CUT_OFF = End("CreationCutOff", "not all pods were created; trying again later", Charge.WITHDRAWAL)
"""How an attempt ends that is found without all of its pods before the status tells of it."""


def missing(seen: Mapping[str, Member], free: Capacity | None) -> str | None:
    """Return what the gang waits for before its gates are lifted; None if it waits no longer.

    Once one gate is lifted the others follow whatever fits now: the decision was made, and a pass
    was cut short in the middle of it. Where free capacity is not known the gates are lifted as soon
    as all pods are there.
    """
    gated = _gated(seen)
    is_begun = len(gated) < len(seen)
    return None if is_begun or free is None else capacity.shortage(gated, free)


def lift(seen: Mapping[str, Member]) -> tuple[Patch, ...]:
    """Return what lifts the gates of all members."""
    return tuple(_without_gate(member) for member in _gated(seen))


def is_held_back(seen: Mapping[str, Member]) -> bool:
    """Whether the scheduler cannot place the whole attempt yet."""
    return any(member.gates for member in seen.values())


def is_bound(members: Sequence[MemberStatus], seen: Mapping[str, Member]) -> bool:
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
    """Return the withdrawal of an attempt that did not find room in time."""
    limit = deadline(training, policy)
    if limit is None or now < limit:
        return None
    seconds = policy.schedule_timeout_seconds
    message = f"not all members were bound to nodes in {seconds} s; trying again later"
    return End("GangTimedOut", message, Charge.WITHDRAWAL)


def _gated(seen: Mapping[str, Member]) -> list[Member]:
    return [member for member in seen.values() if SCHEDULING_GATE in member.gates]


def _without_gate(member: Member) -> Patch:
    kept = [{"name": name} for name in member.gates if name != SCHEDULING_GATE]
    return Patch("Pod", member.name, member.uid, {"spec": {"schedulingGates": kept}})
