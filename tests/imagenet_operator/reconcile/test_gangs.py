"""Gangs: all members of an attempt get nodes, or none."""

from __future__ import annotations

from datetime import timedelta

from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from support.job_stories import (
    condition_of,
    creating,
    ended_well,
    is_in_attempt,
    is_running,
    make,
    play,
    reasons,
)
from support.sentences import assert_says


def test_a_gang_without_room_is_withdrawn_and_comes_back() -> None:
    cluster = make({"a": 4}, backoffLimit=0, schedulingPolicy={"scheduleTimeoutSeconds": 100})
    play(cluster, lambda found: "GangTimedOut" in reasons(found))
    assert cluster.status.phase == "Starting"
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    cluster.slots["b"] = 1
    play(cluster, is_running)
    training = cluster.status.training
    assert training is not None
    assert training.attempt > 0
    cluster.settle()
    assert ended_well(cluster)


def test_a_gang_is_reconciled_at_its_deadline() -> None:
    cluster = creating(schedulingPolicy={"scheduleTimeoutSeconds": 100})
    decision = cluster.reconcile()
    assert [event.reason for event in decision.events] == ["AttemptStarted"]
    assert decision.requeue_after == timedelta(seconds=100)


def test_a_gang_that_waits_is_reconciled_as_soon_as_its_pods_exist() -> None:
    decision = creating(schedulingPolicy={"gang": "Wait"}).reconcile()
    assert [event.reason for event in decision.events] == ["AttemptStarted"]
    assert decision.requeue_after == timedelta(0)


def test_a_gang_that_waits_is_bound_only_when_all_fit() -> None:
    cluster = make({"a": 4}, tells_capacity=True, schedulingPolicy={"gang": "Wait"})
    play(cluster, lambda found: len(found.created_pods) == 5)
    for _ in range(300):
        cluster.turn()
        assert cluster.reconcile().patch == ()
        assert all("nodeName" not in item["spec"] for item in cluster.members())
        cluster.now += timedelta(seconds=30)
    *state, message = condition_of(cluster.status, "Running")
    assert state == ["False", "Scheduling"]
    assert_says(message, "until all members fit", "0 of 1 nodes", "for digits-r0-server-1")
    assert_says(message, "1 with no room for another pod")
    cluster.slots["b"] = 1
    assert len(cluster.reconcile().patch) == 5
    play(cluster, is_in_attempt(0))


def test_that_room_comes_and_goes_elsewhere_is_not_worth_a_write() -> None:
    cluster = make({"a": 4}, tells_capacity=True, schedulingPolicy={"gang": "Wait"})
    play(cluster, lambda found: len(found.created_pods) == 5)
    cluster.reconcile()
    before = cluster.status
    for room in (3, 4, 3):
        cluster.slots["a"] = room
        assert not is_worth_a_write(before, cluster.reconcile().status)
    cluster.slots = {}
    assert "there is no node" in condition_of(cluster.reconcile().status, "Running")[2]


def test_gates_are_lifted_at_once_where_capacity_is_not_known() -> None:
    cluster = play(make(schedulingPolicy={"gang": "Wait"}), is_in_attempt(0))
    training = cluster.status.training
    assert training is not None
    assert training.schedulable_time is not None


def test_an_estimate_that_was_wrong_is_covered_by_the_timeout() -> None:
    policy = {"gang": "Wait", "scheduleTimeoutSeconds": 100}
    cluster = make({"a": 4}, schedulingPolicy=policy)
    play(cluster, lambda found: "GangTimedOut" in reasons(found))
