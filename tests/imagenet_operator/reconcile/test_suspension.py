"""Suspension, and the deadlines that it stops."""

from __future__ import annotations

from datetime import timedelta

from imagenet_operator.manifests.labels import SUSPENDED
from support.job_stories import (
    ROOMY,
    condition_of,
    ended_well,
    is_in_attempt,
    is_over,
    is_running,
    make,
    names,
    play,
    pod,
    reasons,
    running,
    worker_arguments,
)
from support.job_table import PREPARED, manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import condition


def test_suspending_ends_the_attempt_uncharged_and_resuming_starts_the_next() -> None:
    cluster = running(backoffLimit=0)
    cluster.suspend(True)
    cluster.reconcile()
    cluster.reconcile()
    assert cluster.status.phase == "Suspending"
    assert condition(cluster.status, "Suspended") is None
    play(cluster, lambda found: found.status.phase == "Suspended")
    assert cluster.members() == []
    assert not [found for found in cluster.objects if found[1] == "digits-r0"]
    for _ in range(5):
        cluster.now += timedelta(hours=1)
        assert cluster.reconcile().create == ()
    cluster.suspend(False)
    cluster.reconcile()
    play(cluster, is_in_attempt(1))
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    assert reasons(cluster)[3:] == ["Suspended", "AttemptStarted", "Resumed", "Running"]
    assert condition_of(cluster.status, "Suspended")[:2] == ("False", "Resumed")


def test_workers_that_changed_during_a_suspension_train_in_the_next_attempt() -> None:
    cluster = running()
    folder = worker_arguments(cluster, "digits-r0-worker-0")["--output"]
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    assert ("PersistentVolumeClaim", "digits-dataset") in cluster.objects
    training = cluster.document["spec"]["training"]
    training["workers"] = {"replicas": 4, "template": {"metadata": {"labels": {"pool": "b"}}}}
    training["batchSize"] = 1024
    cluster.slots["c"] = 3
    cluster.suspend(False)
    cluster.reconcile()
    play(cluster, is_in_attempt(1))
    workers = [item for item in cluster.members() if "-worker-" in item["metadata"]["name"]]
    assert [item["metadata"]["labels"]["pool"] for item in workers] == ["b"] * 4
    arguments = worker_arguments(cluster, "digits-r1-worker-3")
    # What was trained so far is where it was, and the batch is shared among more.
    assert (arguments["--output"], arguments["--batch-size"]) == (folder, "256")
    cluster.settle()
    assert ended_well(cluster)


def test_suspending_the_preparation_suspends_its_jobs() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    job = cluster.objects["Job", "digits-pack"]
    cluster.suspend(True)
    cluster.reconcile()
    assert job["spec"]["suspend"] is True
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.suspend(False)
    cluster.reconcile()
    assert job["spec"]["suspend"] is False
    cluster.settle()
    assert ended_well(cluster)


def test_what_an_earlier_release_has_suspended_goes_on_with_its_job() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    job = cluster.objects["Job", "digits-pack"]
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    # It had no label for that.
    del job["metadata"]["labels"][SUSPENDED]
    cluster.suspend(False)
    cluster.settle()
    assert cluster.objects["Job", "digits-pack"] is job
    assert ended_well(cluster)


def test_a_job_may_be_suspended_from_the_beginning() -> None:
    cluster = make(suspend=True)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.objects) == ("Suspended", {})
    cluster.suspend(False)
    cluster.settle()
    assert ended_well(cluster)


def test_a_job_on_a_prepared_dataset_may_be_suspended_from_the_beginning() -> None:
    document = manifest(
        dataset={"source": PREPARED, "volume": None},
        training={"output": {"volume": {"size": "10Gi"}}},
        run_policy={"suspend": True},
    )
    cluster = SimulatedCluster(document, ROOMY)
    cluster.is_sealed = True
    cluster.reconcile()
    assert (cluster.status.phase, cluster.objects) == ("Suspended", {})
    cluster.suspend(False)
    cluster.settle()
    assert ended_well(cluster)
    assert names(cluster, "PersistentVolumeClaim") == ["digits-output"]


def test_only_training_counts_towards_the_active_deadline() -> None:
    cluster = running(activeDeadlineSeconds=120)
    cluster.now += timedelta(seconds=60)
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.now += timedelta(hours=5)
    cluster.suspend(False)
    play(cluster, is_running)
    cluster.now += timedelta(seconds=30)
    cluster.reconcile()
    assert not is_over(cluster)
    cluster.now += timedelta(seconds=20)
    cluster.settle()
    assert condition_of(cluster.status, "Failed")[1:] == (
        "DeadlineExceeded",
        "training took over 120 s",
    )
    assert cluster.running() == []
    assert condition_of(cluster.status, "Running")[:2] == ("False", "DeadlineExceeded")


def test_hours_without_an_operator_in_which_nothing_ran_do_not_count() -> None:
    cluster = running(activeDeadlineSeconds=3600)
    cluster.now += timedelta(seconds=60)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 1)
    cluster.now += timedelta(hours=8)
    cluster.reconcile()
    assert not is_over(cluster)
    assert cluster.status.training is not None
    # 5 of them before this test's first.
    assert cluster.status.training.clock.seconds == 65


def test_hours_without_an_operator_after_success_do_not_count() -> None:
    cluster = running()
    cluster.now += timedelta(seconds=50)
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 0)
    cluster.now += timedelta(seconds=10)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 0)
    cluster.now += timedelta(hours=8)
    cluster.reconcile()
    assert ended_well(cluster)
    assert cluster.status.training is not None
    # 5 of them before this test's first.
    assert cluster.status.training.clock.seconds == 65


def test_no_attempt_starts_when_the_time_is_used_up() -> None:
    cluster = running(activeDeadlineSeconds=100)
    cluster.now += timedelta(seconds=100)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), 1)
    cluster.settle()
    assert condition_of(cluster.status, "Failed")[1] == "DeadlineExceeded"
    assert len(cluster.created_pods) == 5
