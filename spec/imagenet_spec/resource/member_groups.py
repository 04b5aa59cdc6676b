"""The members of a large attempt, as a status stores them: in groups.

A decision reads and returns one `MemberStatus` for each pod. A stored object has room for some
hundred of these, because etcd accepts 1.5 MiB. So beyond `LISTED` members, `stored` writes those
with an own message one by one and all others in groups of the same role and state. A group keeps
what decisions need: names, fingerprints of UIDs, exit code, reason, and when the first and the last
member ended. `bounded` gives a record exactly the parts that are stored.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Final, get_args

from imagenet_spec.names import MemberRole
from imagenet_spec.resource.status import MEMBERS_MAXIMUM, MemberGroup, MemberStatus

LISTED: Final = 500
"""The largest number of members that are stored one by one."""

FIRST_FAILURES: Final = 10
"""How many members that failed first keep their whole message."""

WORDS_MAXIMUM: Final = 1024
"""UTF-8 bytes of a whole message."""

SHORT_MAXIMUM: Final = 256
"""UTF-8 bytes of the message of another member of a small attempt."""

_FINGERPRINT: Final = 8
_MARK: Final = "~"
_ROLES: Final = {role: place for place, role in enumerate(get_args(MemberRole))}
_NUMBERED: Final = re.compile(r"(.*-)(0|[1-9][0-9]{0,8})")
_PODS: Final = re.compile(r"(.*-)\[([0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)\]")
_NOWHERE: Final = (None, None, None)
_RESULT: Final = re.compile(r'"epochs":|"event": ?"(finished|read)"')
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)


def fingerprint(uid: str) -> str:
    """Return a short form of a UID: enough to notice a pod of the same name with another UID."""
    if uid.startswith(_MARK):
        return uid
    digest = hashlib.sha256(uid.encode()).digest()
    return _MARK + urlsafe_b64encode(digest[: _FINGERPRINT * 6 // 8]).decode()


def is_same(recorded: str | None, uid: str) -> bool:
    """Whether a recorded UID, if there is one, is that of a pod."""
    return recorded is None or recorded == uid or recorded == fingerprint(uid)


def is_lean(member: MemberStatus) -> bool:
    """Whether a member is recorded without where it runs."""
    return member.uid is not None and member.uid.startswith(_MARK)


def is_result(member: MemberStatus) -> bool:
    """Whether a member's message may be the result of the training."""
    is_of_worker = (member.role, member.phase) == ("worker", "Succeeded")
    return is_of_worker and _RESULT.search(member.message or "") is not None


def bounded(members: Sequence[MemberStatus], listed: int = LISTED) -> tuple[MemberStatus, ...]:
    """Return the record with a bounded number of bytes.

    The members that failed first, and the first result of a worker, stay whole. Of more than
    `listed` members, each other one keeps what a group keeps of it.
    """
    failed = (item for item in members if item.phase in ("Failed", "Unknown"))
    first = heapq.nsmallest(FIRST_FAILURES, failed, key=_end)
    results = (item for item in members if is_result(item))
    whole = {item.name for item in chain(first, [next(results, None)]) if item is not None}
    is_small = len(members) <= listed
    return tuple(
        _cut(item, WORDS_MAXIMUM)
        if item.name in whole and item.message is not None
        else (_cut(item, SHORT_MAXIMUM) if is_small else _lean(item))
        for item in members
    )


def tail(text: str, maximum: int) -> str:
    """Return the end of a text, of so many UTF-8 bytes at most."""
    return text.encode()[-maximum:].decode(errors="ignore")


def grouped(
    members: Sequence[MemberStatus], listed: int = LISTED
) -> tuple[tuple[MemberStatus, ...], tuple[MemberGroup, ...]]:
    """Return a bounded record as it is stored: members one by one, and groups of the others."""
    if len(members) <= listed:
        return tuple(members), ()
    single: list[MemberStatus] = []
    groups: dict[tuple[Any, ...], list[tuple[int, MemberStatus]]] = {}
    for item in members:
        match = _NUMBERED.fullmatch(item.name)
        if match is None or item.message is not None:
            single.append(item)
            continue
        state = item.phase, item.exit_code, item.reason or "", item.uid is None
        key = item.role, match[1], *state
        groups.setdefault(key, []).append((int(match[2]), item))
    return tuple(single), tuple(_group(key[1], found) for key, found in groups.items())


def listed(
    single: Iterable[MemberStatus], groups: Iterable[MemberGroup]
) -> tuple[MemberStatus, ...]:
    """Return the members of a stored record one by one, in the order of role and index."""
    of_groups = islice(chain.from_iterable(map(_members, groups)), MEMBERS_MAXIMUM)
    found = {item.name: item for item in chain(of_groups, single)}
    return tuple(sorted(found.values(), key=_position))


def _end(member: MemberStatus) -> tuple[datetime, bool]:
    """Return when a member ended, for an order in which one with a message precedes its equals."""
    return member.finished_at or _EPOCH, member.message is None


def _cut(member: MemberStatus, maximum: int) -> MemberStatus:
    if len(member.message or "") * 4 <= maximum:
        return member
    return member.model_copy(update={"message": tail(member.message or "", maximum)})


def _lean(member: MemberStatus) -> MemberStatus:
    """Return a member with what a group keeps of it."""
    # The UID of a member that has ended is not compared again.
    has_ended = member.finished_at is not None
    uid = None if has_ended or member.uid is None else fingerprint(member.uid)
    if uid == member.uid and (member.message, member.node, member.started_at) == _NOWHERE:
        return member
    lean = {"message": None, "node": None, "started_at": None, "uid": uid}
    return member.model_copy(update=lean)


def _group(prefix: str, found: list[tuple[int, MemberStatus]]) -> MemberGroup:
    found.sort(key=lambda entry: entry[0])
    first = found[0][1]
    ends = [item.finished_at for _, item in found if item.finished_at is not None]
    return MemberGroup(
        role=first.role,
        phase=first.phase,
        pods=f"{prefix}[{_ranges([index for index, _ in found])}]",
        uids="".join((item.uid or "").removeprefix(_MARK) for _, item in found) or None,
        exit_code=first.exit_code,
        reason=first.reason,
        first_finished_at=min(ends, default=None),
        last_finished_at=max(ends, default=None),
    )


def _members(group: MemberGroup) -> Iterator[MemberStatus]:
    match = _PODS.fullmatch(group.pods)
    if match is None:
        return
    # Of all of the times, decisions need the first and the last.
    shared: dict[str, Any] = {
        "role": group.role,
        "phase": group.phase,
        "exit_code": group.exit_code,
        "reason": group.reason,
    }
    first = MemberStatus.model_construct(name="", finished_at=group.first_finished_at, **shared)
    other = first.model_copy(update={"finished_at": group.last_finished_at})
    ranges = (part.partition("-") for part in match[2].split(","))
    indices = chain.from_iterable(range(int(a), int(b or a) + 1) for a, _, b in ranges)
    for place, index in enumerate(indices):
        uid = (group.uids or "")[place * _FINGERPRINT : (place + 1) * _FINGERPRINT]
        own = {"name": f"{match[1]}{index}", "uid": f"{_MARK}{uid}" if uid else None}
        yield (other if place else first).model_copy(update=own)


def _ranges(indices: Sequence[int]) -> str:
    """Return ascending numbers as ``0-311,313-999``."""
    starts = [i for i, n in enumerate(indices) if not i or indices[i - 1] != n - 1]
    ends = [*(start - 1 for start in starts[1:]), len(indices) - 1]
    pairs = ((indices[start], indices[end]) for start, end in zip(starts, ends, strict=True))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def _position(member: MemberStatus) -> tuple[int, int, str]:
    match = _NUMBERED.fullmatch(member.name)
    return _ROLES[member.role], int(match[2]) if match else 0, member.name
