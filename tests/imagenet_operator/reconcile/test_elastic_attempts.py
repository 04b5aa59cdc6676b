"""Elastic jobs in the simulated cluster: fewer workers while nodes are missing, and more again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.types import ReconcileSettings
from support.job_stories import (
    condition_of,
    ended_well,
    is_in_attempt,
    is_running,
    play,
    reasons,
    worker_arguments,
)
from support.job_table import manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

WAIT = 100


def make(
    nodes: dict[str, int], *, tells_capacity: bool = True, changes: int = 4, **run_policy: Any
) -> SimulatedCluster:
    """A job of 4 workers, or 2 or 3 if nodes are missing, with 1 server and 1 scheduler."""
    document = manifest(
        training={
            "strategy": {"parameterServer": {"servers": {"replicas": 1}}},
            "batchSize": 480,
            "workers": {
                "replicas": 4,
                "minReplicas": 2,
                "elastic": {"waitSeconds": WAIT, "maxChangesPerHour": changes},
            },
        },
        run_policy=run_policy,
    )
    return SimulatedCluster(document, nodes, ReconcileSettings(), tells_capacity=tells_capacity)


def workers(cluster: SimulatedCluster) -> int | None:
    training = cluster.status.training
    assert training is not None
    found = [member for member in training.members if member.role == "worker"]
    assert training.workers == len(found)
    return training.workers


def said(cluster: SimulatedCluster, *kinds: str) -> list[str]:
    return [event.message for event in cluster.events if event.reason in kinds]


def pass_hours(cluster: SimulatedCluster, hours: int) -> None:
    """Let a job run on for some hours, with passes."""
    for _ in range(hours * 120):
        cluster.turn()
        cluster.reconcile()
        cluster.now += timedelta(seconds=30)


def test_with_room_for_all_it_starts_with_all_workers() -> None:
    cluster = play(make({"a": 3, "b": 3}), is_running)
    assert workers(cluster) == 4
    assert said(cluster, "AttemptStarted") == ["attempt 0: 6 pods"]
    assert condition_of(cluster.status, "Running")[2] == "all members of attempt 0 run"
    cluster.settle()
    assert ended_well(cluster)
    assert not said(cluster, "Shrunk", "Grown")


def test_where_nodes_are_missing_the_next_attempt_has_fewer_workers() -> None:
    cluster = make({"a": 5})
    play(cluster, lambda found: "GangTimedOut" in reasons(found))
    training = cluster.status.training
    assert training is not None
    assert training.outcome is not None
    assert training.start_time is not None
    assert training.outcome.time - training.start_time == timedelta(seconds=WAIT)
    play(cluster, is_in_attempt(1))
    assert workers(cluster) == 3
    (shrunk,) = said(cluster, "Shrunk")
    assert_says(shrunk, "3 of 4 workers", "0 of 1 nodes", "digits-r1-server-0", "another pod")
    assert_says(said(cluster, "AttemptStarted")[1], "attempt 1", "5 pods", "3 of 4 workers")
    assert_says(condition_of(cluster.status, "Running")[2], "attempt 1", "3 of 4 workers")
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    cluster.settle()
    assert ended_well(cluster)


def test_the_pods_of_an_attempt_know_its_number_and_share_the_batch() -> None:
    cluster = play(make({"a": 4}), is_in_attempt(1))
    assert [pod["metadata"]["name"] for pod in cluster.members()] == [
        "digits-r1-scheduler-0",
        "digits-r1-server-0",
        "digits-r1-worker-0",
        "digits-r1-worker-1",
    ]
    assert worker_arguments(cluster, "digits-r1-worker-0")["--batch-size"] == "240"
    server = cluster.objects["Pod", "digits-r1-server-0"]
    variables = {item["name"]: item.get("value") for item in server["spec"]["containers"][0]["env"]}
    assert (variables["DMLC_NUM_WORKER"], variables["DMLC_NUM_SERVER"]) == ("2", "1")


def test_below_the_least_number_it_waits() -> None:
    cluster = make({"a": 3})
    play(cluster, lambda found: len(said(found, "GangTimedOut")) == 3)
    training = cluster.status.training
    assert training is not None
    assert len(training.members) == 4
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    cluster.slots["a"] = 6
    play(cluster, is_running)
    assert workers(cluster) == 4


def test_a_lost_node_is_followed_by_fewer_workers_at_once() -> None:
    cluster = play(make({"a": 4, "b": 2}), is_in_attempt(0))
    lost_at = cluster.now
    cluster.lose("b")
    play(cluster, is_in_attempt(1))
    assert workers(cluster) == 2
    assert (cluster.now - lost_at).total_seconds() < WAIT
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 1)


def test_if_nothing_fits_after_a_loss_the_former_number_waits() -> None:
    cluster = play(make({"a": 3, "b": 3}), is_in_attempt(0))
    cluster.lose("b")
    play(cluster, lambda found: len(found.members()) == 6 and not is_running(found))
    cluster.recover("b")
    play(cluster, is_in_attempt(1))
    assert workers(cluster) == 4


def test_where_capacity_is_not_known_the_bound_workers_decide() -> None:
    cluster = play(make({"a": 5}, tells_capacity=False), is_in_attempt(1))
    assert workers(cluster) == 3
    (message,) = said(cluster, "Shrunk")
    assert_says(message, "Shrunk to 3 of 4 workers", "not all members", "nodes in 100 s")
    assert_says(message, "the next attempt may have fewer workers")
    cluster.slots["b"] = 6
    pass_hours(cluster, 2)
    assert is_in_attempt(1)(cluster)


def test_a_gang_behind_gates_shrinks_too() -> None:
    cluster = make({"a": 4}, schedulingPolicy={"gang": "Wait"})
    play(cluster, is_in_attempt(1))
    assert workers(cluster) == 2
    assert not any("nodeName" in item["spec"] for item in cluster.members() if "-r0-" in str(item))


def test_the_least_number_waits_behind_its_gates_without_an_end() -> None:
    cluster = make({"a": 3}, schedulingPolicy={"gang": "Wait"})
    play(cluster, lambda found: len(said(found, "AttemptStarted")) == 2)
    pass_hours(cluster, 1)
    assert len(said(cluster, "AttemptStarted")) == 2
    assert condition_of(cluster.status, "Running")[2].startswith("waiting until all members fit")


def test_the_number_is_recorded_before_its_pods_are_created() -> None:
    """So the pods that an operator asks for before it dies are of the same number as all others."""

    def is_chosen(found: SimulatedCluster) -> bool:
        training = found.status.training
        return training is not None and training.next_workers is not None

    cluster = play(make({"a": 5}), is_chosen)
    assert not cluster.members()
    assert cluster.next_reconcile == cluster.now
    cluster.slots["a"] = 6
    decision = cluster.reconcile()
    created = [item["metadata"]["name"] for item in decision.create if item["kind"] == "Pod"]
    assert created == [
        "digits-r1-scheduler-0",
        "digits-r1-server-0",
        *(f"digits-r1-worker-{index}" for index in range(3)),
    ]


def test_a_cut_off_creation_is_taken_over_with_its_number() -> None:
    cluster = play(make({"a": 5}), lambda found: "GangTimedOut" in reasons(found))
    cluster.now += timedelta(seconds=60)
    for _ in range(3):
        cluster.turn()
        cluster.reconcile(cut_after=7 if not cluster.members() else None)
        if any("-r1-" in name for name in cluster.created_pods):
            break
    cluster.reconcile()
    training = cluster.status.training
    assert training is not None
    assert training.attempt == 1
    assert training.outcome is None
    assert workers(cluster) == 3


def test_gpu_hours_count_the_workers_of_the_attempt() -> None:
    cluster = make({"a": 4})
    cluster.edit(lambda spec: spec["training"]["workers"].update(gpus=2))
    play(cluster, is_in_attempt(1))
    time = cluster.status.time
    assert time is not None
    before, since = time.gpu_hours or 0.0, time.counted_until
    cluster.now += timedelta(hours=1)
    after = cluster.reconcile().status.time
    assert after is not None
    assert since is not None
    hours = (cluster.now - since).total_seconds() / 3600
    assert abs((after.gpu_hours or 0.0) - before - hours * 2 * 2) < 0.01


def shrunk(**policy: Any) -> SimulatedCluster:
    """A job that runs with 2 of 4 workers since its second node was lost."""
    cluster = play(make({"a": 4, "b": 2}, **policy), is_in_attempt(0))
    cluster.lose("b")
    return play(cluster, is_in_attempt(1))


def test_when_a_node_comes_back_it_goes_on_with_all_workers_from_a_checkpoint() -> None:
    cluster = shrunk()
    cluster.recover("b")
    play(cluster, lambda found: "Growing" in reasons(found))
    assert cluster.status.time is not None
    assert cluster.status.time.phase == "restarting"
    play(cluster, is_in_attempt(2))
    assert workers(cluster) == 4
    (message,) = said(cluster, "Growing")
    assert_says(message, "attempt 1", "4 workers fit now", "more than 2", "from a checkpoint")
    assert said(cluster, "Grown") == ["Grown to 4 workers"]
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 1)
    cluster.settle()
    assert ended_well(cluster)


def test_it_grows_to_what_fits() -> None:
    cluster = shrunk()
    cluster.slots["b"] = 1
    cluster.recover("b")
    play(cluster, is_in_attempt(2))
    assert workers(cluster) == 3
    assert said(cluster, "Grown") == ["Grown to 3 of 4 workers"]


@pytest.mark.costly
def test_room_that_is_gone_again_makes_no_further_growth_within_the_limit() -> None:
    cluster = shrunk(changes=2)
    cluster.recover("b")
    play(cluster, lambda found: "Growing" in reasons(found))
    cluster.lose("b")
    play(cluster, is_in_attempt(2))
    assert workers(cluster) == 2
    cluster.recover("b")
    limited_at = cluster.now
    play(cluster, lambda found: found.now > limited_at + timedelta(minutes=20))
    assert is_in_attempt(2)(cluster)
    pass_hours(cluster, 1)
    assert workers(cluster) == 4


@pytest.mark.costly
def test_a_job_whose_capacity_is_doubtful_does_not_grow_for_an_hour() -> None:
    cluster = make({"a": 4, "b": 2})
    bind = cluster.bind

    def only_on_a(pod: dict[str, Any]) -> None:
        room, cluster.slots["b"] = cluster.slots["b"], 0
        bind(pod)
        cluster.slots["b"] = room

    cluster.bind = only_on_a  # type: ignore[method-assign]
    play(cluster, lambda found: is_running(found) and workers(found) == 2)
    training = cluster.status.training
    assert training is not None
    number = training.attempt
    running_at = cluster.now
    play(cluster, lambda found: found.now > running_at + timedelta(minutes=20))
    assert is_in_attempt(number)(cluster)
    cluster.bind = bind  # type: ignore[method-assign]
    pass_hours(cluster, 1)
    assert workers(cluster) == 4


def test_a_suspended_job_comes_back_with_all_workers() -> None:
    cluster = shrunk()
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.suspend(False)
    play(cluster, lambda found: len(found.members()) == 6)
    assert not is_running(cluster)
