"""Restart: when an attempt has to end because of its members, and to what that is charged.

No strategy survives a lost member: all others hang. So a member that fails or vanishes ends the
attempt. So does a scheduler, server or rendezvous (a helper) that exits while a worker runs. In
this order:

1. An eviction by Kueue, which takes back the quota of the attempt, is not charged to anybody.
2. A disruption (preemption, eviction, deletion, a vanished pod, a lost node) is not charged to the
   job. It excuses the other members: their exit codes prove nothing about the program.
3. A program that the container runtime cannot start is not charged, like other start errors.
4. Exit codes 2 and 3 of our programs mean bad arguments, and a wrong input or path. Another attempt
   would end in the same way, so the job fails without using backoffLimit. A user's own program may
   mean anything by them.
5. Exit code 4 of our workers means that the output volume lacks room. The job waits for room: only
   the first attempt of a row is charged.
6. An eviction for the pod's own use of local storage is charged, under a reason of its own.
7. Any other failure is charged, and the job restarts.
8. A helper that exited with 0 before the last worker gets a grace period: at the end of training
   all members exit together, and the exit of a worker may be observed last.

A node may be out of reach for minutes before its pods are deleted. A failure or a hang of other
members meanwhile is charged to that node, whichever policy finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.api.status import MemberStatus
from imagenet_operator.reconcile.policies import memory, start_errors, storage
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import Charge, End, MemberPod
from imagenet_spec.names import EXIT_PERMANENT, EXIT_USAGE, EXIT_VOLUME_FULL

EVICTED: Final = "EvictedByKueue"
"""The reason of an attempt whose quota Kueue has taken back."""

FULL_VOLUME: Final = "VolumeFull"
"""The reason of an end for lack of room on the output volume."""

NO_ROOM: Final = "OutOf"
"""How the kubelet begins its reason where a bound pod did not fit: OutOfcpu, OutOfpods, …"""

REJECTIONS: Final = frozenset(
    {
        "NodeAffinity",  # the node changed between binding and start
        "NodeShutdown",  # the node goes down
        "SMTAlignmentError",  # the CPU manager has no whole cores left
        "TopologyAffinityError",  # the topology manager cannot align the devices
        "UnexpectedAdmissionError",  # a device plugin was restarting, or fails
    }
)
"""The reasons with which a kubelet rejects a bound pod, beside those that begin with `NO_ROOM`."""

_NEVER_STARTED: Final = frozenset({"StartError", "ContainerCannotRun"})
"""The reasons of containerd and Docker for a container whose program cannot be executed."""

_SIGKILLED: Final = 128 + 9
_KILLED: Final = frozenset({None, 0, _SIGKILLED, 128 + 15})
"""How a container ends that is stopped from outside: without a code, with 0 after it has saved, by
SIGKILL, by SIGTERM."""


def verdict(
    members: Sequence[MemberStatus],
    seen: Mapping[str, MemberPod],
    grace_period: timedelta,
    now: datetime,
    *,
    own_program: bool = False,
) -> End | None:
    """Return why the attempt has to end, if it has to.

    Args:
        members: The record, after this reconcile.
        seen: The attempt's pods that are there now, by name.
        grace_period: How long a helper that exited with 0 may precede the last worker.
        now: The time.
        own_program: Whether the workers run a program of the user's own.
    """
    for member in members:
        pod = seen.get(member.name)
        if pod is not None and pod.evicted is not None and member.phase != "Succeeded":
            return End(EVICTED, f"evicted by Kueue: {pod.evicted}", Charge.QUEUE)
    for member in members:
        if (why := _disruption(member, seen.get(member.name))) is not None:
            return End(why, _disrupted(member, why), Charge.DISRUPTION)
    failed = sorted(
        (member for member in members if member.phase == "Failed"),
        key=lambda item: str(item.finished_at),
    )
    if failed:
        return _failure(failed, own_program=own_program)
    early_helper = _early_helper(members)
    if early_helper is not None and now >= _leave(early_helper, grace_period):
        message = f"{early_helper.name} exited with 0 while a worker still runs"
        return End("MemberEndedEarly", message, Charge.FAILURE)
    return None


def excused(end: End, members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> End:
    """Return an end, charged to the cluster if a member's node cannot be reached.

    Args:
        end: As a policy sees it.
        members: The record, after this reconcile.
        seen: The attempt's pods that are there now, by name.
    """
    if end.charge not in (Charge.FAILURE, Charge.PERMANENT):
        return end
    for member in members:
        pod = seen.get(member.name)
        if pod is not None and pod.out_of_reach and member.phase not in TERMINAL:
            message = f"{member.name} is on a node that cannot be reached; {end.message}"
            return End("NodeLost", message, Charge.DISRUPTION)
    return end


def deadline(members: Sequence[MemberStatus], grace_period: timedelta) -> datetime | None:
    """Return when the grace period of a helper that exited before the last worker ends."""
    early_helper = _early_helper(members)
    return None if early_helper is None else _leave(early_helper, grace_period)


def _disruption(member: MemberStatus, pod: MemberPod | None) -> str | None:
    """Why a member counts as disrupted; a member that succeeded never does."""
    if member.phase == "Succeeded":
        return None
    if member.phase == "Unknown":
        return member.reason
    if pod is None:
        return None
    if pod.disrupted is not None:
        return pod.disrupted
    if pod.terminating and (member.phase != "Failed" or member.exit_code in _KILLED):
        return "Deleted"
    return None


def rejecting_nodes(members: Sequence[MemberStatus]) -> list[str]:
    """Return the nodes whose kubelets rejected members of an attempt."""
    return [item.node for item in members if item.node is not None and _is_rejected(item)]


def _is_rejected(member: MemberStatus) -> bool:
    """Whether a kubelet rejected a pod, so that no container of it was ever started."""
    reason = member.reason or ""
    # Under pressure, a node rejects a pod with the reason of an eviction.
    is_rejection = (
        reason in REJECTIONS
        or reason.startswith(NO_ROOM)
        or (member.message or "").startswith("Pod was rejected")
    )
    return member.phase == "Failed" and member.started_at is None and is_rejection


def _disrupted(member: MemberStatus, why: str) -> str:
    if not _is_rejected(member):
        return f"{member.name} was disrupted: {why}"
    node = f" of {member.node}" if member.node else ""
    message = f": {' '.join(member.message.split())}" if member.message else ""
    then = "; the next attempt prefers other nodes" if member.node else ""
    return f"the kubelet{node} rejected {member.name}: {why}{message}{then}"


def _failure(failed: Sequence[MemberStatus], *, own_program: bool) -> End:
    """The end of an attempt by members that failed, the first of them first."""
    for member in failed:
        if member.reason in _NEVER_STARTED:
            why = f"the container cannot be started: {member.message or 'no message'}"
            message = f"{member.name}: {why}; correct the template"
            return End(start_errors.NOT_STARTED, message, Charge.START_ERROR)
    for member in failed:
        if member.reason == storage.EXCEEDED:
            message = f"{member.name} was evicted: {member.message}"
            return End(storage.EXCEEDED, message, Charge.FAILURE)
    ours = [member for member in failed if not (own_program and member.role == "worker")]
    for member in ours:
        if member.exit_code in (EXIT_USAGE, EXIT_PERMANENT):
            return End("PermanentFailure", _termination_message(member), Charge.PERMANENT)
    for member in ours:
        if member.exit_code == EXIT_VOLUME_FULL:
            message = f"waiting for room on the output volume: {_termination_message(member)}"
            return End(FULL_VOLUME, message, Charge.FULL_VOLUME)
    return End("MemberFailed", _termination_message(failed[0]), Charge.FAILURE)


def _early_helper(members: Sequence[MemberStatus]) -> MemberStatus | None:
    """The first helper that ended well while a worker has not ended."""
    if all(member.phase in TERMINAL for member in members if member.role == "worker"):
        return None
    left = [member for member in members if member.role != "worker" and member.phase == "Succeeded"]
    return min(left, key=lambda member: str(member.finished_at), default=None)


def _leave(early_helper: MemberStatus, grace_period: timedelta) -> datetime:
    assert early_helper.finished_at is not None  # recorded with every terminal state
    return early_helper.finished_at + grace_period


def _termination_message(member: MemberStatus) -> str:
    if member.exit_code == _SIGKILLED and member.reason != memory.OOM_KILLED:
        # It had no time to say anything: the kubelet took the message from its log.
        return (
            f"{member.name} was killed by SIGKILL (exit code {_SIGKILLED}), and not for its own "
            "memory limit; check the memory of its node, its probes, and what it sends to itself"
        )
    code = "without an exit code" if member.exit_code is None else f"with {member.exit_code}"
    # The last line of a log is the exception; its causes are above it.
    words = (member.message or "").strip().splitlines()[-1:]
    return ": ".join([f"{member.name} exited {code}", *words])
