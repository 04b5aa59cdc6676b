"""Publishing beside training: its end is a condition, and never that of the job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.types import ReconcileSettings
from support.job_stories import ROOMY, condition_of, ended_well, is_over, is_running, names, play
from support.job_table import BUCKET, PREPARED, manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

Manifest = dict[str, Any]
NAME = "digits-publish"
PROTECTION = "digits-preparation"
PUBLISH = {"publish": {"s3": BUCKET}}


def make(access_mode: str = "ReadWriteMany", **run_policy: object) -> SimulatedCluster:
    volume = {"size": "9Gi", "accessModes": [access_mode]}
    document = manifest(dataset={"volume": volume, **PUBLISH}, run_policy=run_policy)
    return SimulatedCluster(document, ROOMY, ReconcileSettings())


def make_prepared() -> SimulatedCluster:
    document = manifest(dataset={"source": PREPARED, "volume": None, **PUBLISH})
    cluster = SimulatedCluster(document, ROOMY, ReconcileSettings())
    cluster.is_sealed = True
    return cluster


def is_publishing(cluster: SimulatedCluster) -> bool:
    return NAME in names(cluster, "Job")


def published(cluster: SimulatedCluster) -> tuple[str, str, str]:
    return condition_of(cluster.status, "DatasetPublished")


def test_the_dataset_is_uploaded_beside_training() -> None:
    cluster = play(make(), is_publishing)
    container = cluster.objects["Job", NAME]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["imagenet-publish"]
    assert container["args"][2:] == [
        *("--to", "s3://datasets/imagenet"),
        *("--endpoint", "https://s3.example.com", "--region", "eu-central-1"),
    ]
    assert published(cluster) == ("False", "Publishing", "uploading the dataset")
    cluster.settle()
    assert ended_well(cluster)
    expected = ("True", "Published", "the dataset is in s3://datasets/imagenet")
    assert published(cluster) == expected


def test_an_upload_ends_although_another_container_of_its_pod_runs_on() -> None:
    cluster = play(make(), is_publishing)
    cluster.hold(cluster.objects["Job", NAME])
    for _ in range(2):
        cluster.reconcile()
    assert published(cluster)[:2] == ("True", "Published")
    assert NAME not in names(cluster, "Job")


def test_a_failure_is_a_condition_and_training_goes_on() -> None:
    cluster = play(make(), is_publishing)
    cluster.fail_job(cluster.objects["Job", NAME], "the server refuses the keys")
    cluster.settle()
    assert ended_well(cluster)
    assert published(cluster) == ("False", "PublishFailed", "publish: the server refuses the keys")
    assert NAME in names(cluster, "Job")


def end_training_before_the_upload(cluster: SimulatedCluster) -> Callable[[], None]:
    """Let a job end while its upload lasts; return what lets the upload end too."""
    held, cluster.advance = cluster.advance, lambda job: None  # type: ignore[method-assign]
    for _ in range(100):
        cluster.turn()
        cluster.finish_training()
        cluster.reconcile()
    assert is_over(cluster)

    def go_on() -> None:
        cluster.advance = held  # type: ignore[method-assign]

    return go_on


def test_a_job_that_has_ended_keeps_its_upload() -> None:
    cluster = play(make(ttlSecondsAfterFinished=0, cleanPodPolicy="All"), is_publishing)
    upload = cluster.objects["Job", NAME]["metadata"]["uid"]
    go_on = end_training_before_the_upload(cluster)
    assert not cluster.is_deleted
    assert cluster.objects["Job", NAME]["metadata"]["uid"] == upload
    go_on()
    cluster.settle()
    assert cluster.is_deleted
    assert published(cluster)[:2] == ("True", "Published")


def ended_with_an_upload_that_waits(state: Manifest) -> SimulatedCluster:
    """A job that has ended, and whose upload has a pod that does not start."""
    cluster = play(make(ttlSecondsAfterFinished=0, startDeadlineSeconds=900), is_publishing)
    cluster.pend(cluster.objects["Job", NAME])["status"] |= state
    end_training_before_the_upload(cluster)
    return cluster


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
WAITING = {"state": {"waiting": {"reason": "ErrImagePull"}}, "name": "main"}


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ({"conditions": [UNSCHEDULABLE | {"message": "0/3 nodes"}]}, "no node fits the pod"),
        ({"containerStatuses": [WAITING]}, "the image cannot be pulled"),
    ],
)
def test_an_upload_that_cannot_start_does_not_keep_an_ended_job(
    state: Manifest, cause: str
) -> None:
    cluster = ended_with_an_upload_that_waits(state)
    ended = cluster.status.completion_time
    assert ended is not None
    assert not cluster.is_deleted
    while not cluster.is_deleted:
        cluster.now += timedelta(seconds=60)
        cluster.reconcile()
        assert cluster.now <= ended + timedelta(seconds=1800), published(cluster)
    assert published(cluster)[1] == "PublishFailed"
    assert "publish: could not start for 900 s: digits-publish" in published(cluster)[2]
    assert cause in published(cluster)[2]


def test_an_upload_whose_name_is_taken_does_not_keep_an_ended_job() -> None:
    cluster = make(ttlSecondsAfterFinished=0)
    cluster.occupy("Job", NAME)
    play(cluster, is_running)
    for _ in range(100):
        cluster.turn()
        cluster.finish_training()
        cluster.reconcile()
    assert not cluster.is_deleted
    cluster.now += timedelta(seconds=700)
    for _ in range(3):
        cluster.reconcile()
    assert cluster.is_deleted
    assert published(cluster)[1] == "PublishFailed"
    assert "Job digits-publish belongs to Other theirs" in published(cluster)[2]


def test_an_upload_that_follows_training_begins_however_late_the_operator_comes() -> None:
    cluster = play(make("ReadWriteOnce"), is_running)
    while not is_over(cluster):
        cluster.turn()
        cluster.finish_training()
        cluster.reconcile()
    cluster.now += timedelta(hours=1)
    cluster.reconcile()
    assert is_publishing(cluster)
    cluster.settle()
    assert published(cluster)[:2] == ("True", "Published")


def test_an_upload_that_waits_for_a_node_while_the_job_trains_goes_on_waiting() -> None:
    cluster = play(make(), is_publishing)
    cluster.pend(cluster.objects["Job", NAME])["status"]["conditions"] = [UNSCHEDULABLE]
    for _ in range(100):
        cluster.now += timedelta(seconds=60)
        cluster.reconcile()
    assert published(cluster)[:2] == ("False", "Unschedulable")


def test_an_upload_is_protected_until_it_ends() -> None:
    cluster = play(make_prepared(), is_publishing)
    assert PROTECTION in names(cluster, "NetworkPolicy")
    go_on = end_training_before_the_upload(cluster)
    assert names(cluster, "NetworkPolicy") == [PROTECTION]
    cluster.remove(cluster.objects["NetworkPolicy", PROTECTION])
    cluster.reconcile()
    assert names(cluster, "NetworkPolicy") == [PROTECTION]
    go_on()
    cluster.settle()
    assert names(cluster, "NetworkPolicy") == []


def test_an_upload_on_a_lost_node_starts_again() -> None:
    cluster = play(make(), is_publishing)
    former = cluster.objects["Job", NAME]
    cluster.slots["c"] = 3
    cluster.strand(former, "c")
    cluster.reconcile()
    assert NAME not in names(cluster, "Job")
    assert_says(cluster.events[-1].message, "publish: ", "node that cannot be reached")
    cluster.reconcile()
    assert cluster.objects["Job", NAME]["metadata"]["uid"] != former["metadata"]["uid"]
    cluster.settle()
    assert ended_well(cluster)
    assert published(cluster)[:2] == ("True", "Published")


def test_on_a_claim_of_one_node_it_follows_training() -> None:
    cluster = play(make("ReadWriteOnce"), is_running)
    assert names(cluster, "Job").count(NAME) == 0
    assert published(cluster)[1] == "WaitingForTraining"
    cluster.settle()
    assert published(cluster)[:2] == ("True", "Published")


def test_a_suspended_job_does_not_upload() -> None:
    cluster = play(make(), is_publishing)
    cluster.document["spec"]["runPolicy"]["suspend"] = True
    cluster.reconcile()
    assert cluster.objects["Job", NAME]["spec"]["suspend"] is True
    assert published(cluster)[:2] == ("False", "Suspended")
    cluster.document["spec"]["runPolicy"]["suspend"] = False
    cluster.settle()
    assert ended_well(cluster)
    assert published(cluster)[:2] == ("True", "Published")


def test_a_prepared_dataset_is_uploaded_too() -> None:
    cluster = make_prepared()
    cluster.settle()
    assert published(cluster)[:2] == ("True", "Published")


@pytest.mark.parametrize("cut_after", range(5))
def test_it_is_safe_to_cut_anywhere(cut_after: int) -> None:
    cluster = make()
    for _ in range(200):
        cluster.turn()
        cluster.reconcile(cut_after=cut_after)
        cluster.reconcile(repeat=True)
        if is_running(cluster):
            break
    cluster.settle()
    assert ended_well(cluster)
    assert published(cluster)[:2] == ("True", "Published")
