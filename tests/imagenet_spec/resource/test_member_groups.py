"""The members of a large attempt, as they are stored."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.resource import member_groups
from imagenet_spec.resource.status import MemberGroup, MemberStatus
from support.attempt_members import NOW, later

RESULT = '{"event": "finished", "epochs": 3, "top1": 0.5}'


def member(index: int, phase: str = "Running", role: str = "worker", **fields: Any) -> MemberStatus:
    """A member of attempt 2."""
    name = f"digits-r2-{role}-{index}"
    ended = {"finished_at": NOW} if phase in ("Succeeded", "Failed", "Unknown") else {}
    known = {"uid": f"uid-of-{name}", "node": "n1", "started_at": NOW, **ended, **fields}
    return MemberStatus.model_validate({"name": name, "role": role, "phase": phase, **known})


def stored(members: Any) -> tuple[MemberStatus, ...]:
    """A record after it was written and read."""
    return member_groups.listed(*member_groups.grouped(members))


def test_a_small_record_stays_as_it_is() -> None:
    members = tuple(member(index, message="so it ended") for index in range(member_groups.LISTED))
    assert member_groups.bounded(members) == members
    assert member_groups.grouped(members) == (members, ())


def test_a_large_record_has_one_group_for_each_role_and_state() -> None:
    workers = [member(index) for index in range(1000)]
    workers[312] = member(312, "Failed", exit_code=1, message="no memory")
    workers[400] = member(400, "Unknown", reason="Vanished")
    servers = [member(index, role="server") for index in range(3)]
    single, groups = member_groups.grouped(member_groups.bounded([*servers, *workers]))
    assert [(item.name, item.message, item.node) for item in single] == [
        ("digits-r2-worker-312", "no memory", "n1")
    ]
    assert [(group.phase, group.reason, group.pods) for group in groups] == [
        ("Running", None, "digits-r2-server-[0-2]"),
        ("Running", None, "digits-r2-worker-[0-311,313-399,401-999]"),
        ("Unknown", "Vanished", "digits-r2-worker-[400]"),
    ]
    assert [len(group.uids or "") for group in groups] == [3 * 8, 998 * 8, 0]


def test_a_pod_of_the_same_name_with_another_uid_is_noticed() -> None:
    for item in stored(member_groups.bounded([member(index) for index in range(1000)])):
        assert member_groups.is_same(item.uid, f"uid-of-{item.name}")
        assert not member_groups.is_same(item.uid, f"uid-of-another-{item.name}")
    assert member_groups.is_same(None, "any")


STATES = st.sampled_from(
    [
        ("Pending", {}),
        ("Running", {}),
        ("Succeeded", {"exit_code": 0}),
        ("Succeeded", {"exit_code": 0, "message": RESULT}),
        ("Failed", {"exit_code": 1, "message": "ä" * 5000}),
        ("Failed", {"exit_code": 3, "reason": "Error", "message": "no such folder"}),
        ("Unknown", {"reason": "Vanished"}),
    ]
)


@given(st.lists(STATES, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_what_is_read_is_what_was_bounded_and_bounding_it_changes_nothing(
    states: list[tuple[str, dict[str, Any]]], random: Any
) -> None:
    cycle = itertools.cycle(states)
    members = []
    for index in range(member_groups.LISTED + 1):
        phase, fields = next(cycle)
        ended = {"finished_at": later(random.randrange(99))} if phase[0] in "SFU" else {}
        members.append(member(index, phase, **{**fields, **ended}))
    bounded = member_groups.bounded(members)
    read = stored(bounded)
    assert member_groups.bounded(read) == read
    assert stored(read) == read

    def decisive(record: Any) -> list[Any]:
        return [(m.name, m.role, m.phase, m.uid, m.exit_code, m.reason, m.message) for m in record]

    assert decisive(read) == decisive(bounded)
    for phase in ("Succeeded", "Failed", "Unknown"):
        assert first_and_last(read, phase) == first_and_last(members, phase)


def first_and_last(record: Any, phase: str) -> list[Any]:
    """The first and the last time at which members of a phase ended."""
    times = sorted(item.finished_at for item in record if item.phase == phase)
    return [*times[:1], *times[-1:]]


@pytest.mark.parametrize("count", [400, 1000])
def test_the_first_failures_and_the_result_keep_their_words(count: int) -> None:
    words = "x" * 3000 + "the cause"
    members = [
        member(index, "Failed", finished_at=NOW + timedelta(seconds=count - index), message=words)
        for index in range(count - 2)
    ]
    members += [member(count - 2, "Succeeded", message="{}"), member(count - 1, "Succeeded")]
    members[-1] = members[-1].model_copy(update={"message": RESULT})
    bounded = member_groups.bounded(members)
    whole = [
        item.name for item in bounded if len(item.message or "") == member_groups.WORDS_MAXIMUM
    ]
    assert whole == [f"digits-r2-worker-{index}" for index in range(count - 12, count - 2)]
    assert bounded[-1].message == RESULT
    assert all(len(item.message or "") <= 256 for item in bounded[: count - 12])
    assert bounded[0].message == (None if count > 500 else words[-256:])


@pytest.mark.parametrize("pods", ["", "a", "a-[", "a-[]", "a-[1,]", "a-[-1]", "a-[1-2-3]", "a-[x]"])
def test_a_group_without_names_is_of_no_members(pods: str) -> None:
    assert member_groups.listed((), [MemberGroup(role="worker", pods=pods)]) == ()


def test_a_group_has_no_more_members_than_a_status_may() -> None:
    group = MemberGroup(role="worker", pods="a-[0-999999999]")
    assert len(member_groups.listed((), [group])) == 20_001
