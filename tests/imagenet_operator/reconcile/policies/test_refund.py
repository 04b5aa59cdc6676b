"""Which node's loss explains the end of an attempt, by a table."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.api.status import AttemptOutcome
from imagenet_operator.reconcile.policies import refund
from imagenet_operator.reconcile.types import MemberPod, Phase
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
    assert list(refund.suspects([CRASHED, recorded("worker-1")], pods)) == found


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Unknown"])
def test_a_member_that_had_ended_makes_no_node_suspect(phase: str) -> None:
    record = [CRASHED, recorded("worker-1", phase, node="b")]
    assert refund.suspects(record, {"worker-1": on("b", out_of_reach=True)}) == {}


def test_a_suspect_node_that_cannot_be_reached_is_lost() -> None:
    assert refund.lost({"b": on("b")}) is None
    pod = on("c", out_of_reach=True)
    assert refund.lost({"b": on("b"), "c": pod}) is pod


@pytest.mark.parametrize(("seconds", "over"), [(0, False), (299, False), (300, True)])
def test_a_node_that_is_lost_after_five_minutes_explains_nothing(seconds: int, over: bool) -> None:
    outcome = AttemptOutcome(time=NOW, reason="MemberFailed", charged=True)
    assert refund.is_over(outcome, later(seconds)) is over
