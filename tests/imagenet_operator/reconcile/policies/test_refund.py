"""Which node's loss explains the end of an attempt, by a table."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.reconcile.policies import members
from imagenet_operator.reconcile.types import MemberPod, Phase
from imagenet_spec.resource.status import AttemptOutcome
from support.attempt_members import NOW, later, recorded, seen

CRASHED = recorded("worker-0", "Failed", node="a")


def on(node: str | None, phase: Phase = Phase.RUNNING, **fields: Any) -> MemberPod:
    return seen("worker-1", phase, node=node, **fields)


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        (on("b"), ["b"]),
        (on("b", Phase.BOUND), ["b"]),
        (on("b", terminating=True, out_of_reach=True), ["b"]),
        # Its kubelet has ended it since.
        (on("b", Phase.FAILED, terminating=True), []),
        # The pod garbage collector has ended it, not its kubelet.
        (on("b", Phase.FAILED, disrupted="DeletionByPodGC", out_of_reach=True), ["b"]),
        # The node of the member that failed was alive.
        (on("a", out_of_reach=True), []),
        (on(None, Phase.PENDING), []),
        (None, []),
    ],
)
def test_a_node_is_suspect_while_it_reports_the_end_of_no_member(
    pod: MemberPod | None, found: list[str]
) -> None:
    pods = {} if pod is None else {pod.name: pod}
    assert list(members.suspect_nodes([CRASHED, recorded("worker-1")], pods)) == found


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Unknown"])
def test_a_member_that_had_ended_makes_no_node_suspect(phase: str) -> None:
    record = [CRASHED, recorded("worker-1", phase, node="b")]
    assert members.suspect_nodes(record, {"worker-1": on("b", out_of_reach=True)}) == {}


@pytest.mark.parametrize(
    ("pod", "unreachable", "lost"),
    [
        (on("b"), "", None),
        (on("b"), "b", "worker-1"),
        (on("b"), "c", None),
        # It vanished from its node before the node was known to be lost.
        (None, "b", "worker-1"),
        (on("b", Phase.FAILED, finished_at=later(1)), "b", None),
    ],
)
def test_a_suspect_node_that_cannot_be_reached_is_lost(
    pod: MemberPod | None, unreachable: str, lost: str | None
) -> None:
    pods = {} if pod is None else {pod.name: pod}
    record = [CRASHED, recorded("worker-1", node="b")]
    assert members.lost_member(record, pods, {unreachable}) == lost


@pytest.mark.parametrize(("ended", "is_suspect"), [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("has_pod", [True, False])
def test_an_end_before_the_failure_does_not_show_that_its_node_is_alive(
    ended: int, is_suspect: bool, has_pod: bool
) -> None:
    """A worker of the same node may have ended well long before."""
    time = later(ended)
    record = [
        recorded("worker-2", "Succeeded", node="b", finished_at=time),
        CRASHED,
        recorded("worker-1", node="b"),
    ]
    pods = {"worker-1": on("b", out_of_reach=True)}
    if has_pod:
        pods["worker-2"] = seen("worker-2", Phase.SUCCEEDED, node="b", finished_at=time)
    assert bool(members.suspect_nodes(record, pods)) is is_suspect
    assert bool(members.lost_member(record, pods, {"b"})) is is_suspect


@pytest.mark.parametrize(("seconds", "over"), [(0, False), (299, False), (300, True)])
def test_a_node_that_is_lost_after_five_minutes_explains_nothing(seconds: int, over: bool) -> None:
    outcome = AttemptOutcome(time=NOW, reason="MemberFailed", charged=True)
    assert members.is_charge_final(outcome, later(seconds)) is over
