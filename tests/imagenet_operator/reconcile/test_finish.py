"""Success, and the cleanup of a finished job."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.types import ReconcileSettings
from support.job_stories import (
    condition_of,
    is_in_attempt,
    is_over,
    is_running,
    play,
    pod,
    running,
)
from support.sentences import assert_says


def test_the_status_says_where_the_model_is() -> None:
    cluster = running()
    assert cluster.status.model is None
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 1)
    play(cluster, is_in_attempt(1))
    cluster.settle()
    assert cluster.status.model is not None
    assert cluster.status.model.to_manifest() == {
        "claimName": "digits-dataset",
        "path": "jobs/digits-6f3c1f0e/attempts/r1",
        "framework": "MXNet",
    }


def test_the_status_has_the_checksum_of_the_result() -> None:
    cluster = running()
    words = json.dumps({"event": "finished", "epochs": 90, "resultSha256": "a5" * 32})
    first, second = cluster.finishing_workers()
    cluster.exit(first, 0, words)
    cluster.exit(second, 0)
    cluster.reconcile()
    assert cluster.status.model is not None
    assert cluster.status.model.sha256 == "a5" * 32


STOPPED = {
    "event": "finished",
    "epochs": 8,
    "top1": 0.81,
    "plannedEpochs": 90,
    "stoppedMetric": "top1",
    "stoppedValue": 0.8125,
    "stoppedEpoch": 5,
}


@pytest.mark.parametrize(
    ("result", "reason", "facts", "epochs"),
    [
        (
            STOPPED,
            "EarlyStopped",
            ["epoch 8 of 90", "validation top1", "not improved since epoch 5 (0.8125)"],
            "8/90",
        ),
        (
            {"event": "finished", "epochs": 8, "plannedEpochs": 90, "stoppedMetric": "loss"},
            "EarlyStopped",
            ["epoch 8 of 90", "validation loss", "never a number"],
            "8/90",
        ),
        (
            {"event": "finished", "epochs": 90, "top1": 0.81},
            "AllWorkersSucceeded",
            ["all workers of attempt 0 exited with 0"],
            "90/90",
        ),
    ],
)
def test_an_early_stop_is_the_reason_of_the_success(
    result: dict[str, Any], reason: str, facts: list[str], epochs: str
) -> None:
    cluster = running()
    first, second = cluster.finishing_workers()
    cluster.exit(first, 0, json.dumps(result))
    cluster.exit(second, 0)
    cluster.reconcile()
    assert cluster.status.phase == "Succeeded"
    *state, message = condition_of(cluster.status, "Succeeded")
    assert state == ["True", reason]
    assert_says(message, *facts)
    training = cluster.status.training
    assert training is not None
    assert training.finished_epochs == epochs
    assert (training.epoch, training.checkpoint_epoch) == (
        result["epochs"] - 1,
        result["epochs"],
    )
    assert training.eta is None


def test_a_finished_worker_that_vanishes_undoes_nothing() -> None:
    cluster = running(backoffLimit=0)
    first, second = cluster.finishing_workers()
    cluster.exit(first, 0)
    cluster.reconcile()
    cluster.vanish(first)
    cluster.reconcile()
    assert is_running(cluster)
    cluster.exit(second, 0)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Succeeded", 0)


def test_a_worker_that_vanished_before_its_end_was_seen_is_a_disruption() -> None:
    cluster = running()
    first = cluster.finishing_workers()[0]
    cluster.exit(first, 0)
    cluster.vanish(first)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Restarting", 1)


def test_a_server_that_fails_after_the_last_worker_changes_nothing() -> None:
    cluster = running()
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    cluster.exit(pod(cluster, "digits-r0-server-0"), 134)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.restarts) == ("Succeeded", 0)


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (
            "None",
            {
                *("digits-preparation", "digits-index", "digits-pack", "digits-seal", "digits-r0"),
                *("digits-r0-scheduler-0", "digits-r0-server-0", "digits-r0-server-1"),
                *("digits-r0-worker-0", "digits-r0-worker-1"),
            },
        ),
        (
            "Running",
            {
                *("digits-index", "digits-pack", "digits-seal"),
                *("digits-r0-worker-0", "digits-r0-worker-1"),
            },
        ),
        ("All", set()),
    ],
)
def test_the_rest_goes_by_policy(policy: str, kept: set[str]) -> None:
    cluster = running(cleanPodPolicy=policy)
    cluster.lose_job_pods()
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    cluster.reconcile()
    cluster.reconcile()
    for item in cluster.terminating():
        cluster.finalize(item)
    cluster.reconcile()
    left = {name for _, name in cluster.objects} - {"digits-dataset"}
    assert left == kept
    assert ("PersistentVolumeClaim", "digits-dataset") in cluster.objects
    assert cluster.reconcile().delete == ()


def test_a_finished_job_is_deleted_when_its_time_is_over() -> None:
    cluster = running(ttlSecondsAfterFinished=600)
    cluster.settle()
    assert cluster.is_deleted
    ended = cluster.status.completion_time
    assert ended is not None
    assert timedelta(seconds=600) <= cluster.now - ended < timedelta(seconds=660)


def test_a_finished_job_is_not_deleted_before_its_claims_are_let_go() -> None:
    cluster = running(ttlSecondsAfterFinished=600, retentionPolicy="Delete")
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    play(cluster, is_over)
    cluster.document["spec"]["runPolicy"]["retentionPolicy"] = "Retain"
    cluster.now += timedelta(seconds=600)
    decided = cluster.reconcile()
    assert [patch.name for patch in decided.patch] == ["digits-dataset"]
    assert "ImageNetJob" not in {item.kind for item in decided.delete}
    assert decided.requeue_after == ReconcileSettings().requeue_interval
    cluster.settle()
    assert cluster.is_deleted
    claim = cluster.objects["PersistentVolumeClaim", "digits-dataset"]
    assert claim["metadata"]["ownerReferences"] == []


def test_a_finished_job_changes_nothing_more() -> None:
    cluster = running()
    cluster.settle()
    before = cluster.status
    cluster.suspend(True)
    cluster.reconcile()
    assert cluster.status.conditions == before.conditions
    assert cluster.reconcile().requeue_after is None
