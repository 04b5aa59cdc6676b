"""What the status says of an attempt: figures, members, where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.decide import decide
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Observed
from imagenet_operator.reconcile.windows import Steps, StepWindow
from support.job_stories import (
    ROOMY,
    condition_of,
    creating,
    ended_well,
    is_in_attempt,
    is_over,
    is_running,
    make,
    names,
    play,
    pod,
    running,
)
from support.job_table import OWN_PROGRAM, manifest
from support.samples import sample
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import condition
from support.simulated_world import START


def test_figures_of_the_newest_sample_are_in_the_status() -> None:
    cluster = running()
    heard = sample(
        taken_at=cluster.now,
        attempt=0,
        epoch=3,
        epochs=90,
        batch=10,
        batches_per_epoch=20,
        images_per_second=512.0,
        accuracy=0.25,
        progressed_at=cluster.now,
    )
    decision = decide(cluster.job, Observed(), heard, START)
    training = decision.status.training
    assert training is not None
    assert training.epoch == 3
    assert training.accuracy is not None
    assert training.accuracy.train == 0.25
    # The observation is empty, so the attempt ends here, and with it what was of now.
    assert training.outcome is not None
    assert (training.images_per_second, training.estimated_remaining_seconds) == (None, None)


def test_a_failed_job_says_how_to_go_on_from_a_checkpoint_of_an_earlier_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(backoffLimit=1)
    with monkeypatch.context() as patch:
        heard = sample(cluster.now, attempt=0, checkpoint_epoch=7, progressed_at=cluster.now)
        patch.setattr(cluster, "sample", lambda: heard)
        cluster.exit(pod(cluster, "digits-r0-worker-0"), 1, "loss is NaN")
        cluster.reconcile()
    play(cluster, is_in_attempt(1))
    cluster.exit(pod(cluster, "digits-r1-worker-0"), 1, "loss is NaN")
    play(cluster, is_over)
    assert cluster.status.training is not None
    assert cluster.status.training.checkpoint_epoch == 7
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "BackoffLimitExceeded")
    assert "loss is NaN; the newest checkpoint" in message
    assert "after 7 epochs" in message
    assert cluster.events[-1].message == message


def test_workers_that_wait_for_data_are_an_event_once_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running()
    waiting = Steps(of_each=100, steps=200, images=6400, seconds=100.0, waited=40.0)
    window = StepWindow(waiting, waiting)

    def heard() -> Sample:
        return sample(cluster.now, attempt=0, steps=window, progressed_at=cluster.now)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "sample", heard)
        cluster.reconcile()
        window = StepWindow(waiting, replace(waiting, waited=50.0))
        cluster.reconcile()
    training = cluster.status.training
    assert training is not None
    assert training.data_wait is not None
    assert training.data_wait.share == 0.5
    (event,) = (event for event in cluster.events if event.reason == "TrainingWaitsForData")
    assert_says(event.message, "2 workers", "128 images/s", "network takes 213", "40 % of")
    assert_says(event.message, "cause was not measured", "resources.requests.cpu")
    cluster.settle()
    assert ended_well(cluster)
    assert cluster.status.training is not None
    assert cluster.status.training.data_wait == training.data_wait


def test_gpus_that_wait_for_launches_are_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running()
    steps = Steps(100, 200, 6400, seconds=100.0, waited=0.0, launched=200, starved=200)
    window = StepWindow(steps, steps)
    heard = sample(cluster.now, attempt=0, steps=window, progressed_at=cluster.now)
    monkeypatch.setattr(cluster, "sample", lambda: heard)
    cluster.reconcile()
    (event,) = (event for event in cluster.events if event.reason == "TrainingWaitsForLaunches")
    assert_says(event.message, "2 workers read 128 images/s", "not wait for data", "GPUs wait")


def test_training_without_the_compiled_code_that_was_chosen_is_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running()
    for value in (1.0, 0.0, 0.0):
        heard = sample(cluster.now, attempt=0, rank0_pod="digits-0", compiled=value)
        monkeypatch.setattr(cluster, "sample", lambda heard=heard: heard)
        cluster.reconcile()
        assert cluster.status.training is not None
        assert cluster.status.training.compiled == value
    found = [event for event in cluster.events if event.reason == "TrainingWithoutCompiledCode"]
    (event,) = found
    assert event.type == "Warning"
    assert "kubectl logs digits-0 says why" in event.message


def test_members_and_replicas_are_counted_as_they_come_and_go() -> None:
    cluster = running()
    cluster.exit(cluster.finishing_workers()[0], 0)
    cluster.reconcile()
    training = cluster.status.training
    assert training is not None
    counted = {role: found.to_manifest() for role, found in training.replica_statuses.items()}
    assert counted == {
        "scheduler": {"active": 1, "succeeded": 0, "failed": 0},
        "server": {"active": 2, "succeeded": 0, "failed": 0},
        "worker": {"active": 1, "succeeded": 1, "failed": 0},
    }
    cluster.settle()
    training = cluster.status.training
    assert training is not None
    assert sum(found.active for found in training.replica_statuses.values()) == 0


def test_running_says_where_an_attempt_stands() -> None:
    cluster = make()
    seen = []
    while not is_running(cluster):
        cluster.turn()
        cluster.reconcile()
        if (found := condition(cluster.status, "Running")) is not None:
            seen.append(found.reason)
    assert list(dict.fromkeys(seen)) == ["Scheduling", "AllMembersRunning"]

    cluster = creating()
    cluster.reconcile()
    for item in cluster.pending():
        cluster.bind(item)
    cluster.reconcile()
    *state, message = condition_of(cluster.status, "Running")
    assert state == ["False", "Starting"]
    assert_says(message, "all members have nodes", "waiting", "to run")


def end_workers(cluster: SimulatedCluster, message: str) -> None:
    """Let all workers exit with 0."""
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0, message)


def test_workers_that_exit_with_0_without_a_result_fail_the_job_without_a_retry() -> None:
    cluster = running()
    end_workers(cluster, "usage: imagenet-train [-h]")
    cluster.settle()
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "NoResult")
    assert_says(message, "attempt 0: all workers exited with 0", "none left a result")
    assert cluster.status.restarts == 0
    assert len(cluster.created_pods) == 5


def test_pods_that_an_older_operator_made_need_no_result() -> None:
    cluster = creating()
    cluster.reconcile()
    for item in cluster.members():
        item["metadata"]["labels"].pop(labels.RESULT, None)
    play(cluster, is_running)
    end_workers(cluster, "nothing of ours")
    cluster.results = set(names(cluster, "Pod"))
    cluster.settle()
    assert ended_well(cluster)


def test_a_result_counts_after_the_pods_have_vanished() -> None:
    cluster = running()
    end_workers(cluster, "")
    for worker in [item for item in cluster.members() if "-worker-" in item["metadata"]["name"]]:
        cluster.reconcile()
        cluster.vanish(worker)
    cluster.settle()
    assert ended_well(cluster)


@pytest.mark.parametrize(
    ("training", "expects"),
    [
        ({}, True),
        ({"image": "registry.example/ours:0.0.9"}, True),
        ({"extraArgs": ["--test-io", "1"]}, True),
        # An image of an older release leaves none with --test-io.
        ({"image": "registry.example/ours:0.0.9", "extraArgs": ["--test-io", "1"]}, False),
        (OWN_PROGRAM, False),
    ],
)
def test_a_result_is_expected_of_our_own_program(training: dict[str, Any], expects: bool) -> None:
    cluster = SimulatedCluster(manifest(training=training), ROOMY)
    play(cluster, is_running)
    assert cluster.status.training is not None
    assert cluster.status.training.expects_result is expects
