"""Decisions as stories: one job in a simulated cluster, from its first reconcile to its end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from imagenet_operator.reconcile.types import Decision, ReconcileSettings
from imagenet_spec.resource.status import Status
from support.job_stories import (
    ROOMY,
    condition_of,
    creating,
    ended_well,
    is_over,
    is_running,
    make,
    names,
    play,
    pod,
    reasons,
    running,
)
from support.job_table import PREPARED, manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster


def test_the_way_of_one_job() -> None:
    cluster = make()
    phases, made = [], []
    while not is_over(cluster):
        cluster.turn()
        if is_running(cluster):
            cluster.exit(cluster.finishing_workers()[0], 0)
        decision = cluster.reconcile()
        made += [[item["metadata"]["name"] for item in decision.create]]
        phases.append(decision.status.phase)
    assert [names for names in made if names] == [
        ["digits-dataset", "digits-preparation", "digits-index"],
        ["digits-pack"],
        ["digits-seal"],
        [
            *("digits-r0", "digits-r0", "digits-r0"),
            "digits-r0-scheduler-0",
            "digits-r0-server-0",
            "digits-r0-server-1",
            "digits-r0-worker-0",
            "digits-r0-worker-1",
        ],
    ]
    assert list(dict.fromkeys(phases)) == ["Preparing", "Starting", "Running", "Succeeded"]
    assert reasons(cluster) == ["DatasetReady", "AttemptStarted", "Running", "Succeeded"]
    counts = ("1,200 + 100 images", "9 classes", "1 class with too few images")
    assert_says(cluster.events[0].message, "0123456789ab", *counts)
    assert cluster.status.dataset is not None
    assert cluster.status.dataset.sealed


def test_a_dataset_that_is_sealed_already_is_used_at_once() -> None:
    cluster = make()
    cluster.index_result["sealed"] = True
    play(cluster, is_running)
    assert names(cluster, "Job") == ["digits-index"]
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("True", "Reused")


def test_a_prepared_source_needs_no_preparation() -> None:
    document = manifest(dataset={"source": PREPARED})
    del document["spec"]["dataset"]["volume"]
    cluster = SimulatedCluster(document, ROOMY)
    cluster.is_sealed = True
    play(cluster, is_running)
    assert (names(cluster, "Job"), names(cluster, "PersistentVolumeClaim")) == ([], [])
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("True", "Prepared")


def test_a_prepared_source_with_a_volume_is_prepared_again() -> None:
    resized = manifest(dataset={"source": PREPARED, "preprocessing": {"resize": 256}})
    cluster = SimulatedCluster(resized, ROOMY)
    play(cluster, is_running)
    assert names(cluster, "Job") == ["digits-index", "digits-pack", "digits-seal"]
    assert names(cluster, "PersistentVolumeClaim") == ["digits-dataset"]
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("True", "Sealed")


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    cluster = running()
    cluster.document["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 1)
    decision = cluster.reconcile()
    assert (decision.create, decision.delete, decision.patch, decision.events) == ((), (), (), ())
    assert decision.status == cluster.status
    assert decision.requeue_after is None


@pytest.mark.parametrize("ttl", [None, 0])
def test_a_job_of_another_manager_is_left_alone(ttl: int | None) -> None:
    cluster = running() if ttl is None else running(ttlSecondsAfterFinished=ttl)
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    if ttl is not None:
        cluster.reconcile()
    cluster.document["spec"]["runPolicy"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    decision = cluster.reconcile()
    assert decision == Decision(status=cluster.status)

    cluster.document["spec"]["runPolicy"]["managedBy"] = "imagenet.dev/imagenet-operator"
    decision = cluster.reconcile()
    assert decision != Decision(status=cluster.status)


def test_a_job_of_another_manager_is_never_begun() -> None:
    cluster = make(managedBy="kueue.x-k8s.io/multikueue")
    for _ in range(3):
        assert cluster.reconcile() == Decision(status=Status())
        cluster.now += timedelta(days=1)
    assert cluster.objects == {}


def test_a_reconcile_without_news_changes_nothing() -> None:
    cluster = running(progressDeadlineSeconds=100, activeDeadlineSeconds=1000)
    cluster.reconcile()
    before = cluster.status
    decision = cluster.reconcile()
    assert (decision.create, decision.delete, decision.patch, decision.events) == ((), (), (), ())
    assert not is_worth_a_write(before, decision.status)
    assert decision.requeue_after == timedelta(seconds=100)


def test_an_unfinished_job_is_reconciled_again_without_events() -> None:
    assert running().reconcile().requeue_after == ReconcileSettings().resync_period


def test_a_single_worker_needs_no_other_pod() -> None:
    single = {"strategy": {"single": {}}, "workers": {"replicas": 1}}
    cluster = SimulatedCluster(manifest(training=single), ROOMY)
    cluster.settle()
    assert cluster.created_pods == ["digits-r0-worker-0"]
    assert ended_well(cluster)


def test_an_attempt_that_is_over_before_it_is_observed_succeeds() -> None:
    cluster = creating()
    cluster.reconcile()
    for _ in range(2):
        cluster.turn()
    for item in cluster.finishing_workers():
        cluster.exit(item, 0)
    cluster.reconcile()
    assert ended_well(cluster)
    assert condition_of(cluster.status, "Running")[:2] == ("False", "Succeeded")
