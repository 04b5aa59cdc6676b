"""Restart: when an attempt has to end because of its members, and to what that is charged.

No strategy survives a lost member: everybody else hangs. So any member that is lost or fails ends
the attempt, and so does a helper (a scheduler, server or rendezvous: whoever is no worker) that is
done while a worker still works. In this order:

1. What the cluster took away (preempted, evicted, deleted, vanished, on a lost node) is not charged
   to the job, and excuses the others: their exit codes prove nothing about the program.
2. Exit codes 2 and 3 of our programs mean bad arguments, and an input or a place that is wrong:
   another attempt would end in the same way, so the job fails without spending backoffLimit. What
   a user's own program means by them nobody knows.
3. Any other failure is charged, and restarted.
4. A helper that exited with 0 before the last worker is given a moment, because all leave together
   at the end of training and the worker's own exit may be seen last.

A node may be out of reach for minutes before its pods are taken away. What goes wrong meanwhile
(the others lose their peer, or nobody gets on) is that node's fault, whichever policy sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.api.status import MemberStatus
from imagenet_operator.manifests.dataset import BAD_ARGUMENTS, PERMANENT
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import Charge, End, Member

_KILLED: Final = frozenset({None, 128 + 9, 128 + 15})
"""How a container ends that is stopped from outside: without a code, by SIGKILL, by SIGTERM."""


def verdict(
    members: Sequence[MemberStatus],
    seen: Mapping[str, Member],
    farewell: timedelta,
    now: datetime,
    *,
    own_program: bool = False,
) -> End | None:
    """Return why the attempt has to end, if it has to.

    Args:
        members: The record, after this look.
        seen: The attempt's pods that are there now, by name.
        farewell: How long a helper that exited with 0 may precede the last worker.
        now: The time.
        own_program: Whether the workers run a program of the user's own.
    """
    for member in members:
        if (why := _disruption(member, seen.get(member.name))) is not None:
            return End(why, f"{member.name} was taken away: {why}", Charge.DISRUPTION)
    failed = [member for member in members if member.phase == "Failed"]
    for member in failed:
        is_ours = not (own_program and member.role == "worker")
        if is_ours and member.exit_code in (BAD_ARGUMENTS, PERMANENT):
            return End("PermanentFailure", _last_words(member), Charge.PERMANENT)
    if failed:
        return End("MemberFailed", _last_words(failed[0]), Charge.FAILURE)
    deserter = _deserter(members)
    if deserter is not None and now >= _leave(deserter, farewell):
        message = f"{deserter.name} exited with 0 while a worker still runs"
        return End("MemberEndedEarly", message, Charge.FAILURE)
    return None


def excused(end: End, members: Sequence[MemberStatus], seen: Mapping[str, Member]) -> End:
    """Return an end, charged to the cluster if a member's node cannot be reached.

    Args:
        end: As a policy sees it.
        members: The record, after this look.
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


def deadline(members: Sequence[MemberStatus], farewell: timedelta) -> datetime | None:
    """Return when the moment ends that a helper may precede the last worker."""
    deserter = _deserter(members)
    return None if deserter is None else _leave(deserter, farewell)


def _disruption(member: MemberStatus, pod: Member | None) -> str | None:
    """Why a member counts as taken away; a member that succeeded never does."""
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


def _deserter(members: Sequence[MemberStatus]) -> MemberStatus | None:
    """The first helper that ended well while a worker has not ended."""
    if all(member.phase in TERMINAL for member in members if member.role == "worker"):
        return None
    left = [member for member in members if member.role != "worker" and member.phase == "Succeeded"]
    return min(left, key=lambda member: str(member.finished_at), default=None)


def _leave(deserter: MemberStatus, farewell: timedelta) -> datetime:
    assert deserter.finished_at is not None  # recorded with every terminal state
    return deserter.finished_at + farewell


def _last_words(member: MemberStatus) -> str:
    code = "without an exit code" if member.exit_code is None else f"with {member.exit_code}"
    # Of a log's end the last line counts: an exception stands there, below what led to it.
    words = (member.message or "").strip().splitlines()[-1:]
    return ": ".join([f"{member.name} exited {code}", *words])
