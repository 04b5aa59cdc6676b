"""Peers that crash because of a node that died silently, before the cluster notices."""

from __future__ import annotations

from datetime import timedelta

import pytest

from imagenet_operator.reconcile.policies.members import REFUND_WINDOW
from support.job_stories import (
    condition_of,
    ended_well,
    is_in_attempt,
    play,
    pod,
    reasons,
    running,
)
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

THREE = {"a": 3, "b": 3, "c": 3}


def crashed(backoff_limit: int, policy: str = "Running") -> SimulatedCluster:
    """A job of which one node died silently; a peer on another node crashed, and is recorded."""
    cluster = running(THREE, backoffLimit=backoff_limit, cleanPodPolicy=policy)
    cluster.die_silently("b")
    cluster.exit(cluster.running()[0], 1, "a peer is gone")
    cluster.reconcile()
    return cluster


def end_the_rest(cluster: SimulatedCluster) -> None:
    """Let the kubelets that are alive end what is deleted."""
    cluster.reconcile()
    for item in cluster.terminating():
        cluster.finalize(item)
    cluster.reconcile()


def accounts(cluster: SimulatedCluster) -> tuple[int, int]:
    return cluster.status.restarts, cluster.status.disruptions


def test_the_charge_moves_once_when_the_node_turns_not_ready() -> None:
    cluster = crashed(1)
    assert accounts(cluster) == (1, 0)
    end_the_rest(cluster)
    assert accounts(cluster) == (1, 0)
    cluster.notice("b")
    cluster.reconcile()
    assert accounts(cluster) == (0, 1)
    status, reason, message = condition_of(cluster.status, "Restarting")
    assert (status, reason) == ("True", "NodeLost")
    assert "is on a node that cannot be reached; " in message
    cluster.reconcile()
    assert accounts(cluster) == (0, 1)
    cluster.settle()
    assert ended_well(cluster)
    assert accounts(cluster) == (0, 1)


def test_a_charge_that_moved_is_no_failure_of_a_row() -> None:
    cluster = crashed(9)
    end_the_rest(cluster)
    cluster.notice("b")
    cluster.reconcile()
    cluster.recover("b")
    play(cluster, is_in_attempt(1))
    cluster.exit(pod(cluster, "digits-r1-worker-0"), 1)
    cluster.reconcile()
    training = cluster.status.training
    assert training is not None
    assert training.next_attempt_time == cluster.now


def test_the_charge_moves_until_five_minutes_are_over() -> None:
    cluster = crashed(1)
    end_the_rest(cluster)
    cluster.now += REFUND_WINDOW - timedelta(seconds=1)
    cluster.notice("b")
    moved = cluster.reconcile()
    assert moved.create == (), "a start that is cut off would lose it"
    assert moved.requeue_after == timedelta()
    assert accounts(cluster) == (0, 1)
    assert cluster.reconcile().create, "the next attempt does not wait longer for that"


def test_a_node_that_is_lost_later_explains_nothing() -> None:
    cluster = crashed(1)
    end_the_rest(cluster)
    cluster.now += REFUND_WINDOW
    cluster.notice("b")
    cluster.settle()
    assert ended_well(cluster)
    assert accounts(cluster) == (1, 0)


def test_a_node_that_answers_again_explains_nothing() -> None:
    cluster = crashed(1)
    end_the_rest(cluster)
    cluster.recover("b")
    cluster.settle()
    assert ended_well(cluster)
    assert accounts(cluster) == (1, 0)


def test_the_last_charge_is_held_and_moves() -> None:
    cluster = crashed(0)
    end_the_rest(cluster)
    status, reason, message = condition_of(cluster.status, "Running")
    assert (status, reason) == ("False", "MemberFailed")
    assert_says(message, "no restart is left", "checking that no node is lost", ": b")
    assert cluster.status.completion_time is None
    cluster.now += timedelta(seconds=50)
    cluster.notice("b")
    cluster.reconcile()
    assert accounts(cluster) == (0, 1)
    assert reasons(cluster)[-1] == "Restarting"
    cluster.settle()
    assert ended_well(cluster)


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_the_last_charge_is_held_for_five_minutes_at_most(policy: str) -> None:
    cluster = crashed(0, policy)
    end_the_rest(cluster)
    cluster.now += REFUND_WINDOW - timedelta(seconds=1)
    cluster.reconcile()
    assert cluster.status.completion_time is None
    cluster.now += timedelta(seconds=1)
    cluster.reconcile()
    assert condition_of(cluster.status, "Failed")[:2] == ("True", "BackoffLimitExceeded")


def test_the_last_charge_stays_as_soon_as_every_node_has_answered() -> None:
    cluster = running(THREE, backoffLimit=0)
    crash = cluster.running()[0]["metadata"]["name"]
    cluster.exit(pod(cluster, crash), 1, "loss is NaN")
    cluster.reconcile()
    assert cluster.status.completion_time is None
    end_the_rest(cluster)
    assert condition_of(cluster.status, "Failed") == (
        "True",
        "BackoffLimitExceeded",
        f"backoffLimit 0 is reached; attempt 0: {crash} exited with 1: loss is NaN",
    )
    # cleanPodPolicy Running keeps what has ended, for its log.
    assert [item["metadata"]["name"] for item in cluster.members()] == [crash]


def test_a_job_on_one_node_fails_at_once() -> None:
    cluster = running({"a": 5}, backoffLimit=0)
    cluster.exit(cluster.running()[0], 1, "loss is NaN")
    cluster.reconcile()
    assert condition_of(cluster.status, "Failed")[1] == "BackoffLimitExceeded"


def test_a_limit_that_is_raised_while_the_verdict_is_held_counts() -> None:
    cluster = crashed(0)
    end_the_rest(cluster)
    assert (accounts(cluster), cluster.status.completion_time) == ((0, 0), None)
    cluster.edit(lambda spec: spec["runPolicy"].update(backoffLimit=1))
    cluster.reconcile()
    assert accounts(cluster) == (1, 0)
    cluster.notice("b")
    cluster.reconcile()
    assert accounts(cluster) == (0, 1), "the charge may move all the same"
    cluster.settle()
    assert ended_well(cluster)


@pytest.mark.parametrize("backoff_limit", [0, 5])
def test_the_limit_of_disruptions_holds_for_moved_charges(backoff_limit: int) -> None:
    cluster = running(THREE, backoffLimit=backoff_limit)
    for number in range(2):
        play_evicted(cluster, number)
    cluster.die_silently("b")
    cluster.exit(cluster.running()[0], 1, "a peer is gone")
    cluster.reconcile()
    end_the_rest(cluster)
    cluster.notice("b")
    cluster.reconcile()
    if backoff_limit:
        assert accounts(cluster) == (1, 2)
    else:
        assert condition_of(cluster.status, "Failed")[1] == "DisruptionLimitExceeded"


def play_evicted(cluster: SimulatedCluster, number: int) -> None:
    """Evict a member, and go on to the next attempt."""
    cluster.evict(cluster.running()[0])
    play(cluster, is_in_attempt(number + 1))
