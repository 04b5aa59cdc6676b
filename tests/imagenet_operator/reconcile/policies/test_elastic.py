"""The workers of the next attempt: by table, and for random counts, capacities and histories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.reconcile.policies import elastic, gang
from imagenet_operator.reconcile.types import Charge
from imagenet_spec.resource.status import AttemptOutcome, TrainingStatus
from support.attempt_members import NOW, later, recorded
from support.sentences import assert_says

COUNTS = (4, 5, 6, 8)
LOST = "PodLost"


def room_for(workers: int | None) -> elastic.Shortage | None:
    """Return a judge by a free capacity for so many workers; None is an unknown one."""
    if workers is None:
        return None
    return lambda count: None if count <= workers else f"no room for worker-{workers}"


def attempt(workers: int, phase: str = "Running", **fields: Any) -> TrainingStatus:
    members = [recorded("scheduler-0"), recorded("server-0")]
    members += [recorded(f"worker-{index}", phase) for index in range(workers)]
    return TrainingStatus(members=tuple(members), **fields)


def ended(workers: int, reason: str, **fields: Any) -> TrainingStatus:
    outcome = AttemptOutcome(time=NOW, reason=reason, message="why it ended")
    return attempt(workers, outcome=outcome, **fields)


@pytest.mark.parametrize(
    ("former", "room", "workers"),
    [
        pytest.param(None, None, 8, id="first"),
        pytest.param(None, 5, 8, id="first, too little room: it waits"),
        pytest.param(ended(6, "Suspended"), 5, 8, id="suspended: as if it was the first"),
        pytest.param(ended(8, LOST), 8, 8, id="room for all"),
        pytest.param(ended(8, LOST), 7, 6, id="a node is lost: the largest number that fits"),
        pytest.param(ended(8, LOST), 3, 8, id="too little room for any: it waits as before"),
        pytest.param(ended(6, LOST), 8, 8, id="a node came back meanwhile"),
        pytest.param(ended(6, LOST), 3, 6, id="shrunk, and too little room for any"),
        pytest.param(ended(6, LOST), None, 6, id="unknown room: the number stays"),
        pytest.param(ended(8, gang.TIMED_OUT), 6, 6, id="not bound in time"),
        pytest.param(ended(8, gang.TIMED_OUT), 3, 4, id="not bound, too little room: the least"),
        pytest.param(ended(8, gang.TIMED_OUT), 9, 6, id="not bound despite room: fewer anyway"),
        pytest.param(ended(8, gang.TIMED_OUT, bound_workers=5), None, 5, id="as many as bound"),
        pytest.param(ended(8, gang.TIMED_OUT, bound_workers=7), None, 6, id="that divide"),
        pytest.param(ended(8, gang.TIMED_OUT, bound_workers=8), None, 6, id="a server was not"),
        pytest.param(ended(8, gang.TIMED_OUT, bound_workers=1), None, 4, id="at least the least"),
        pytest.param(ended(4, gang.TIMED_OUT), 3, 4, id="the least waits again"),
        pytest.param(ended(4, gang.TIMED_OUT), 9, 8, id="the least, and there is room now"),
        pytest.param(ended(4, gang.TIMED_OUT), None, 4, id="the least, unknown room"),
        pytest.param(ended(7, LOST), None, 6, id="a number that divides no more"),
        pytest.param(ended(3, LOST), None, 4, id="a number below the least"),
    ],
)
def test_the_next_attempt_has_workers_that_fit(
    former: TrainingStatus | None, room: int | None, workers: int
) -> None:
    assert elastic.next_workers(COUNTS, former, room_for(room), NOW).workers == workers


def test_a_smaller_number_says_why() -> None:
    lost, waited = ended(8, LOST), ended(8, gang.TIMED_OUT)
    assert elastic.next_workers(COUNTS, lost, room_for(7), NOW).why == "no room for worker-7"
    assert elastic.next_workers(COUNTS, waited, room_for(6), NOW).why == "no room for worker-6"
    assert elastic.next_workers(COUNTS, waited, None, NOW).why == "why it ended"


def test_a_capacity_that_the_scheduler_contradicts_is_doubtful() -> None:
    waited = ended(8, gang.TIMED_OUT)
    assert elastic.next_workers(COUNTS, waited, room_for(9), NOW).is_doubtful
    assert not elastic.next_workers(COUNTS, waited, room_for(7), NOW).is_doubtful
    assert not elastic.next_workers(COUNTS, waited, None, NOW).is_doubtful


def test_after_a_doubtful_capacity_no_attempt_is_larger_for_a_while() -> None:
    held = ended(6, LOST, growth_after=later(1))
    assert elastic.next_workers(COUNTS, held, room_for(9), NOW).workers == 6
    assert elastic.next_workers(COUNTS, held, room_for(5), NOW).workers == 5
    assert elastic.next_workers(COUNTS, held, room_for(9), later(1)).workers == 8


def shrunk(**fields: Any) -> TrainingStatus:
    return attempt(5, **{"running_time": later(-60), **fields})


@pytest.mark.parametrize(
    ("training", "room", "grows"),
    [
        pytest.param(shrunk(), 8, True, id="room for all"),
        pytest.param(shrunk(), 7, True, id="room for some more"),
        pytest.param(shrunk(), 5, False, id="no room"),
        pytest.param(shrunk(), None, False, id="unknown room"),
        pytest.param(attempt(8, running_time=NOW), 9, False, id="all workers"),
        pytest.param(shrunk(running_time=None), 8, False, id="not all members run"),
        pytest.param(attempt(5, "Succeeded", running_time=NOW), 8, False, id="at its end"),
        pytest.param(
            shrunk(worker_changes=(later(-3600), later(-9), later(-8))), 8, True, id="two changes"
        ),
        pytest.param(
            shrunk(worker_changes=(later(-3599), later(-9), later(-8))), 8, False, id="three"
        ),
        pytest.param(shrunk(growth_after=later(1)), 8, False, id="doubtful capacity"),
        pytest.param(shrunk(growth_after=NOW), 8, True, id="no more"),
    ],
)
def test_an_attempt_with_fewer_workers_ends_when_more_fit(
    training: TrainingStatus, room: int | None, grows: bool
) -> None:
    end = elastic.growth(COUNTS, training, 3, room_for(room), NOW)
    assert (end is not None) is grows
    if end is not None:
        larger = 6 if room == 7 else 8
        assert_says(end.message, f"{larger} workers", "more than 5")
        assert (end.reason, end.charge) == ("Growing", Charge.GROWTH)


def test_no_changes_an_hour_is_no_growth() -> None:
    assert elastic.growth(COUNTS, shrunk(), 0, room_for(8), NOW) is None


_COUNTS = st.sets(st.integers(1, 20), min_size=1).map(sorted)
_ROOM = st.none() | st.integers(0, 25)


@given(counts=_COUNTS, rooms=st.lists(st.tuples(_ROOM, st.booleans()), max_size=12))
def test_the_number_is_always_one_that_divides_and_waiting_ends_at_the_least(
    counts: list[int], rooms: list[tuple[int | None, bool]]
) -> None:
    former, now = None, NOW
    for room, is_bound in rooms:
        choice = elastic.next_workers(counts, former, room_for(room), now)
        before = None if former is None else elastic.workers_of(former)
        assert choice.workers in counts
        assert choice.workers == counts[-1] or former is not None
        if former is not None and former.outcome is not None and before is not None:
            timed_out = former.outcome.reason == gang.TIMED_OUT
            assert choice.workers < before or not timed_out or before == counts[0]
            fits = room is None or choice.workers <= room
            assert fits or choice.workers == (counts[0] if timed_out else before)
            assert choice.workers <= before or (room is not None and choice.workers <= room)
        reason = LOST if is_bound else gang.TIMED_OUT
        former = ended(choice.workers, reason, bound_workers=room or 0)
        now += timedelta(minutes=1)
