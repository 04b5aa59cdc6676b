"""Creations that are cut off: by a crash of the operator, or by the API server."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from support.job_stories import (
    ROOMY,
    condition_of,
    creating,
    ended_well,
    is_in_attempt,
    is_running,
    play,
    reasons,
    running,
    worker_arguments,
)
from support.job_table import PREPARED, manifest
from support.simulated_cluster import SimulatedCluster


@pytest.mark.parametrize("actions", range(8))
def test_an_attempt_that_was_created_in_part_is_withdrawn(actions: int) -> None:
    cluster = creating()
    cluster.reconcile(cut_after=actions)
    assert cluster.status.training is None
    play(cluster, is_running)
    assert cluster.status.training is not None
    assert cluster.status.training.attempt == min(actions, 1)
    assert ("CreationCutOff" in reasons(cluster)) is (actions > 0)
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)


def test_creations_that_are_cut_off_again_and_again_come_less_and_less_often() -> None:
    """A quota that is one pod short stays so: every try costs the creation of all the others."""
    cluster = creating(schedulingPolicy={"scheduleTimeoutSeconds": 300})
    waits: list[timedelta] = []
    for attempt in range(8):
        cluster.reconcile(cut_after=6)
        cluster.reconcile()
        training = cluster.status.training
        assert training is not None
        assert training.outcome is not None
        assert training.next_attempt_time is not None
        assert (training.attempt, training.outcome.reason) == (attempt, "CreationCutOff")
        waits.append(training.next_attempt_time - training.outcome.time)
        while cluster.members():
            cluster.reconcile()
            cluster.turn()
        cluster.now = training.next_attempt_time
    assert all(later >= former for former, later in itertools.pairwise(waits))
    assert waits[0] < timedelta(minutes=1)
    assert waits[-1] == timedelta(minutes=5)


def test_an_attempt_that_was_created_as_a_whole_is_taken_over() -> None:
    cluster = creating()
    cluster.reconcile(cut_after=8)
    assert (len(cluster.created_pods), cluster.status.training) == (5, None)
    play(cluster, is_in_attempt(0))
    assert reasons(cluster) == ["DatasetReady", "AttemptStarted", "Running"]


def prepared() -> SimulatedCluster:
    cluster = SimulatedCluster(manifest(dataset={"source": PREPARED, "volume": None}), ROOMY)
    cluster.is_sealed = True
    return cluster


def test_a_prepared_dataset_is_trained_on_in_the_first_reconcile() -> None:
    decision = prepared().reconcile()
    assert [item["kind"] for item in decision.create] == ["Service", "NetworkPolicy", *["Pod"] * 5]
    assert decision.status.start_time is not None
    assert decision.status.training is not None


@pytest.mark.parametrize(("is_edited", "attempt"), [(False, 0), (True, 1)])
def test_what_was_created_before_the_start_is_taken_over_unless_the_spec_has_changed(
    is_edited: bool, attempt: int
) -> None:
    cluster = prepared()
    cluster.reconcile(cut_after=7)
    assert (len(cluster.created_pods), cluster.status.start_time) == (5, None)
    if is_edited:
        cluster.edit(lambda spec: spec["training"].update(epochs=91))
    play(cluster, is_in_attempt(attempt))
    assert ("CreationCutOff" in reasons(cluster)) is is_edited
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)


def test_what_was_created_of_a_resumed_job_is_not_taken_over_with_another_spec() -> None:
    cluster = running()
    cluster.suspend(True)
    play(cluster, lambda found: "Suspended" in reasons(found))
    cluster.suspend(False)
    cluster.reconcile(cut_after=8)
    assert (len(cluster.members()), condition_of(cluster.status, "Suspended")[0]) == (5, "True")
    cluster.edit(lambda spec: spec["training"].update(batchSize=192))
    play(cluster, is_in_attempt(2))
    assert worker_arguments(cluster, "digits-r2-worker-0")["--batch-size"] == "96"
    assert "CreationCutOff" in reasons(cluster)


def test_a_pod_of_a_former_attempt_that_comes_late_is_deleted() -> None:
    cluster = creating()
    cluster.reconcile(cut_after=5)
    play(cluster, is_in_attempt(1))
    late = cluster.arrive()["metadata"]["name"]
    assert late == "digits-r0-server-1"
    decision = cluster.reconcile()
    assert [item.name for item in decision.delete] == [late]
    assert is_in_attempt(1)(cluster)
    cluster.settle()
    assert ended_well(cluster)
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
