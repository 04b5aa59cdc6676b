"""Gangs: all get nodes or none keeps one; gates are lifted for all at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile.policies import gang
from imagenet_operator.reconcile.types import Capacity, Charge, MemberPod, Patch, Phase, Room
from imagenet_spec.resource.status import TrainingStatus
from support.attempt_members import GPU, NOW, later, recorded, seen
from support.sentences import assert_says

LIMIT = gang.Limit(600)


def waiting(name: str, *, gates: tuple[str, ...] = (SCHEDULING_GATE,), **fields: Any) -> MemberPod:
    return seen(name, Phase.PENDING, gates=gates, requests={GPU: Fraction(4)}, **fields)


def by_name(*pods: MemberPod) -> dict[str, MemberPod]:
    return {pod.name: pod for pod in pods}


def lifted_of(pods: dict[str, MemberPod], free: Capacity | None) -> tuple[Patch, ...]:
    return gang.lift_gates(pods) if gang.missing(pods, free) is None else ()


BOTH = by_name(waiting("worker-0"), waiting("worker-1"))


@pytest.mark.parametrize(
    ("free", "lifted"),
    [
        pytest.param(None, 2, id="unknown"),
        pytest.param({"a": Room({GPU: Fraction(8)})}, 2, id="room for both"),
        pytest.param({"a": Room({GPU: Fraction(7)})}, 0, id="room for one"),
        pytest.param({}, 0, id="no nodes"),
    ],
)
def test_gates_are_lifted_for_all_or_for_none(free: Capacity | None, lifted: int) -> None:
    patches = lifted_of(BOTH, free)
    assert len(patches) == lifted
    for patch in patches:
        assert (patch.kind, patch.uid) == ("Pod", f"uid-of-{patch.name}")
        assert patch.merge == {"spec": {"schedulingGates": []}}


def test_a_gang_that_waits_says_for_what() -> None:
    missing = gang.missing(BOTH, {"a": Room({GPU: Fraction(7)})})
    assert_says(missing or "", "0 of 1 nodes", "worker-1", "1 with less than 4 nvidia.com/gpu")


def test_what_was_begun_is_finished_whatever_fits_now() -> None:
    pods = by_name(waiting("worker-0", gates=()), waiting("worker-1"))
    assert [patch.name for patch in lifted_of(pods, {})] == ["worker-1"]


def test_gates_of_others_stay() -> None:
    pods = by_name(waiting("worker-0", gates=("quota.example/queue", SCHEDULING_GATE)))
    (patch,) = lifted_of(pods, None)
    assert patch.merge == {"spec": {"schedulingGates": [{"name": "quota.example/queue"}]}}
    assert gang.is_held_back(by_name(waiting("worker-0", gates=("quota.example/queue",))))


def test_nothing_to_lift() -> None:
    assert lifted_of(by_name(waiting("worker-0", gates=())), {}) == ()
    assert lifted_of({}, {}) == ()
    assert not gang.is_held_back(by_name(waiting("worker-0", gates=())))


@pytest.mark.parametrize(
    ("second", "bound"),
    [
        (seen("worker-1", Phase.PENDING), False),
        (seen("worker-1", Phase.BOUND), True),
        (seen("worker-1", Phase.RUNNING), True),
        (seen("worker-1", Phase.FAILED), True),
        (None, False),
    ],
)
def test_a_gang_is_bound_when_its_last_member_is(second: MemberPod | None, bound: bool) -> None:
    pods = by_name(seen("worker-0"), *([second] if second else []))
    record = [recorded("worker-0"), recorded("worker-1", "Pending")]
    assert gang.is_bound(record, pods) is bound


def test_a_member_that_ended_had_a_node() -> None:
    assert gang.is_bound([recorded("worker-0", "Succeeded")], {})


@pytest.mark.parametrize(
    ("training", "withdrawn"),
    [
        pytest.param(TrainingStatus(schedulable_time=later(-600)), True, id="too long"),
        pytest.param(TrainingStatus(schedulable_time=later(-599)), False, id="not yet"),
        pytest.param(TrainingStatus(), False, id="still gated"),
        pytest.param(
            TrainingStatus(schedulable_time=later(-900), bound_time=later(-1)), False, id="bound"
        ),
    ],
)
def test_a_gang_that_is_not_bound_in_time_is_withdrawn(
    training: TrainingStatus, withdrawn: bool
) -> None:
    end = gang.verdict(training, LIMIT, NOW)
    assert (end is not None) is withdrawn
    if end is not None:
        assert (end.reason, end.charge) == ("GangTimedOut", Charge.WITHDRAWAL)
        assert gang.deadline(training, LIMIT) == NOW


def test_an_attempt_that_may_have_fewer_workers_does_not_wait_for_its_gates_for_ever() -> None:
    gated = TrainingStatus(start_time=later(-600))
    limit = gang.Limit(600, can_shrink=True)

    assert gang.verdict(gated, LIMIT, NOW) is None
    assert gang.verdict(gated, limit, later(-1)) is None
    end = gang.verdict(gated, limit, NOW)
    assert end is not None
    assert "in 600 s" in end.message
    assert "the next attempt may have fewer workers" in end.message


def test_after_its_gates_the_time_of_such_an_attempt_counts_anew() -> None:
    released = TrainingStatus(start_time=later(-600), schedulable_time=later(-10))
    assert gang.verdict(released, gang.Limit(600, can_shrink=True), NOW) is None
