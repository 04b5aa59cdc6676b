"""The upload of a model after training: its end is a condition, and the job stays Succeeded."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.types import ReconcileSettings
from support.job_stories import (
    ROOMY,
    condition_of,
    ended_well,
    is_over,
    names,
    play,
    reasons,
    running,
)
from support.job_table import BUCKET, OWN_PROGRAM, manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

Manifest = dict[str, Any]
NAME = "digits-upload"
PROTECTION = "digits-preparation"
PLACE = "imagenet/digits-6f3c1f0e"
ON_THE_VOLUME = {
    "claimName": "digits-dataset",
    "path": "jobs/digits-6f3c1f0e/attempts/r0",
    "framework": "MXNet",
}
IN_THE_BUCKET = {
    "bucket": "datasets",
    "path": f"{PLACE}/attempts/r0",
    "framework": "MXNet",
}


def make(
    settings: ReconcileSettings | None = None,
    training: Manifest | None = None,
    **run_policy: Any,
) -> SimulatedCluster:
    output = {"output": {"upload": {"s3": BUCKET}}}
    document = manifest(training={**(training or {}), **output}, run_policy=run_policy)
    return SimulatedCluster(document, ROOMY, settings or ReconcileSettings())


def is_uploading(cluster: SimulatedCluster) -> bool:
    """Let the training end, and say whether the Job exists."""
    cluster.finish_training()
    return NAME in names(cluster, "Job")


def uploading(settings: ReconcileSettings | None = None, **run_policy: Any) -> SimulatedCluster:
    return play(make(settings, None, **run_policy), is_uploading)


def uploaded(cluster: SimulatedCluster) -> tuple[str, str, str]:
    return condition_of(cluster.status, "ModelUploaded")


def place_of_model(cluster: SimulatedCluster) -> Manifest:
    assert cluster.status.model is not None
    return cluster.status.model.to_manifest()


def test_the_model_is_uploaded_after_training_has_succeeded() -> None:
    cluster = uploading()
    assert ended_well(cluster)
    container = cluster.objects["Job", NAME]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["imagenet-publish"]
    assert container["args"] == [
        *("--model", "$(IMAGENET_OUTPUT)/jobs/digits-6f3c1f0e/attempts/r0"),
        *("--to", f"s3://datasets/{PLACE}"),
        *("--endpoint", "https://s3.example.com", "--region", "eu-central-1"),
    ]
    assert uploaded(cluster)[:2] == ("False", "Uploading")
    assert place_of_model(cluster) == ON_THE_VOLUME
    cluster.settle()
    expected = ("True", "Uploaded", f"the model is in s3://datasets/{PLACE}/attempts/r0")
    assert uploaded(cluster) == expected
    assert place_of_model(cluster) == IN_THE_BUCKET
    assert ended_well(cluster)
    cluster.check_rest()


def test_the_checksum_of_the_result_stays() -> None:
    cluster = running()
    cluster.document["spec"]["training"]["output"] = {"upload": {"s3": BUCKET}}
    words = json.dumps({"event": "finished", "epochs": 90, "resultSha256": "a5" * 32})
    first, second = cluster.finishing_workers()
    cluster.exit(first, 0, words)
    cluster.exit(second, 0)
    cluster.settle()
    assert place_of_model(cluster) == {**IN_THE_BUCKET, "sha256": "a5" * 32}


def test_nothing_is_uploaded_of_a_job_that_has_failed() -> None:
    cluster = running(backoffLimit=0)
    cluster.document["spec"]["training"]["output"] = {"upload": {"s3": BUCKET}}
    cluster.exit(cluster.running()[0], 1)
    cluster.settle()
    assert cluster.status.phase == "Failed"
    assert NAME not in names(cluster, "Job")


def test_nothing_is_uploaded_without_a_model() -> None:
    """A program of the user's own leaves none, whatever its manifest says."""
    cluster = make(training=OWN_PROGRAM)
    cluster.document["spec"]["training"]["output"] = {"upload": {"s3": BUCKET}}
    del cluster.document["spec"]["training"]["workers"]["template"]
    cluster.results.clear()
    play(cluster, lambda found: bool(found.running()))
    read = '{"event": "read", "images": 60, "workers": 2, "imagesPerSecond": 9.5}'
    for worker in cluster.finishing_workers():
        cluster.results.add(worker["metadata"]["name"])
        cluster.exit(worker, 0, read)
    cluster.settle()
    assert ended_well(cluster)
    assert cluster.status.model is None
    assert NAME not in names(cluster, "Job")


def test_a_failure_is_tried_again_after_a_wait_that_doubles() -> None:
    cluster = uploading()
    waits = []
    for failures in range(1, 5):
        cluster.fail_job(cluster.objects["Job", NAME], "the server refuses the keys")
        cluster.reconcile()
        assert uploaded(cluster)[:2] == ("False", "UploadFailed")
        assert_says(uploaded(cluster)[2], "upload: the server refuses the keys", "next try is at ")
        record = cluster.status.upload
        assert record is not None and record.next_time is not None
        assert record.failures == failures
        waits.append((record.next_time - cluster.now).total_seconds())
        cluster.now = record.next_time - timedelta(seconds=1)
        cluster.reconcile()
        assert uploaded(cluster)[1] == "UploadFailed"
        cluster.now = record.next_time
        former = cluster.objects["Job", NAME]["metadata"]["uid"]
        for _ in range(2):
            cluster.reconcile()
        assert cluster.objects["Job", NAME]["metadata"]["uid"] != former
        assert uploaded(cluster)[1] == "Uploading"
    assert all(10 * 2**n * 0.75 <= wait <= 10 * 2**n for n, wait in enumerate(waits)), waits
    assert ended_well(cluster)
    assert place_of_model(cluster) == ON_THE_VOLUME
    cluster.settle()
    assert uploaded(cluster)[:2] == ("True", "Uploaded")
    assert cluster.status.upload is None
    assert reasons(cluster).count("UploadFailed") == 4


def test_the_tries_have_a_limit_and_a_change_of_the_spec_begins_again() -> None:
    cluster = uploading(ReconcileSettings(upload_limit=2))
    for _ in range(2):
        cluster.now += timedelta(minutes=1)
        for _ in range(3):
            cluster.reconcile()
        cluster.fail_job(cluster.objects["Job", NAME], "no such bucket")
        cluster.reconcile()
    assert uploaded(cluster)[:2] == ("False", "UploadLimitExceeded")
    assert "no such bucket; 2 tries have failed" in uploaded(cluster)[2]
    cluster.now += timedelta(hours=9)
    cluster.reconcile()
    cluster.check_rest()
    former = cluster.objects["Job", NAME]["metadata"]["uid"]

    place = {**BUCKET, "bucket": "models"}
    cluster.edit(lambda spec: spec["training"]["output"].update(upload={"s3": place}))
    for _ in range(2):
        cluster.reconcile()
    assert cluster.objects["Job", NAME]["metadata"]["uid"] != former
    cluster.settle()
    assert place_of_model(cluster) == {**IN_THE_BUCKET, "bucket": "models"}


def test_a_job_that_uploads_outlives_its_time() -> None:
    cluster = uploading(ttlSecondsAfterFinished=0, cleanPodPolicy="All")
    upload = cluster.objects["Job", NAME]["metadata"]["uid"]
    for _ in range(3):
        cluster.now += timedelta(minutes=5)
        cluster.reconcile()
    assert not cluster.is_deleted
    assert cluster.objects["Job", NAME]["metadata"]["uid"] == upload
    assert names(cluster, "NetworkPolicy") == [PROTECTION]
    cluster.settle()
    assert cluster.is_deleted
    assert uploaded(cluster)[:2] == ("True", "Uploaded")
    assert names(cluster, "NetworkPolicy") == []


def test_a_job_whose_upload_has_failed_outlives_its_time_too() -> None:
    cluster = uploading(ttlSecondsAfterFinished=0)
    cluster.fail_job(cluster.objects["Job", NAME])
    for _ in range(3):
        cluster.reconcile()
    assert not cluster.is_deleted
    cluster.settle()
    assert cluster.is_deleted
    assert place_of_model(cluster) == IN_THE_BUCKET


def test_an_upload_stops_while_the_job_is_suspended() -> None:
    cluster = uploading()
    cluster.suspend(True)
    for _ in range(2):
        cluster.reconcile()
    assert cluster.objects["Job", NAME]["spec"]["suspend"] is True
    assert uploaded(cluster)[:2] == ("False", "Suspended")
    assert ended_well(cluster)
    cluster.suspend(False)
    cluster.settle()
    assert uploaded(cluster)[:2] == ("True", "Uploaded")


def test_a_deleted_job_starts_no_upload() -> None:
    cluster = uploading()
    cluster.remove(cluster.objects["Job", NAME])
    cluster.document["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z"
    decision = cluster.reconcile()
    assert (decision.create, decision.delete) == ((), ())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"prefix": "others"}, "others/digits-6f3c1f0e/attempts/r0"),
        ({"endpoint": "https://s3.example.org"}, f"{PLACE}/attempts/r0"),
    ],
)
def test_an_upload_for_a_former_place_is_not_taken_for_one_for_the_new(
    change: Manifest, expected: str
) -> None:
    cluster = uploading()
    place = {**BUCKET, **change}
    cluster.edit(lambda spec: spec["training"]["output"].update(upload={"s3": place}))
    former = cluster.objects["Job", NAME]
    cluster.upload_result = {
        "url": f"s3://datasets/{PLACE}",
        "endpoint": BUCKET["endpoint"],
        "uploadedBytes": 1,
    }
    while not former["status"].get("succeeded"):
        cluster.advance(former)
    cluster.reconcile()
    assert uploaded(cluster)[0] == "False"
    cluster.upload_result = None
    cluster.settle()
    assert cluster.objects["Job", NAME]["metadata"]["uid"] != former["metadata"]["uid"]
    assert place_of_model(cluster)["path"] == expected


@pytest.mark.parametrize("has_failed", [False, True])
def test_an_upload_that_the_spec_does_not_ask_for_any_more_ends(has_failed: bool) -> None:
    cluster = uploading(cleanPodPolicy="All")
    if has_failed:
        cluster.fail_job(cluster.objects["Job", NAME])
        cluster.reconcile()
    cluster.edit(lambda spec: spec["training"].pop("output"))
    for _ in range(3):
        cluster.reconcile()
    assert uploaded(cluster)[:2] == ("False", "UploadRemoved")
    assert cluster.status.upload is None
    assert NAME not in names(cluster, "Job")
    cluster.edit(lambda spec: spec["training"].update(output={"upload": {"s3": BUCKET}}))
    cluster.reconcile()
    cluster.settle()
    assert place_of_model(cluster) == IN_THE_BUCKET


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def test_an_upload_that_cannot_start_is_a_failure_after_the_deadline() -> None:
    cluster = uploading(startDeadlineSeconds=900)
    cluster.pend(cluster.objects["Job", NAME])["status"]["conditions"] = [
        UNSCHEDULABLE | {"message": "0/3 nodes"}
    ]
    cluster.now += timedelta(seconds=60)
    cluster.reconcile()
    assert uploaded(cluster)[1] == "Unschedulable"
    cluster.now += timedelta(seconds=901)
    cluster.reconcile()
    assert uploaded(cluster)[1] == "UploadFailed"
    assert "could not start for 900 s: digits-upload" in uploaded(cluster)[2]
    cluster.settle()
    assert uploaded(cluster)[:2] == ("True", "Uploaded")


def test_a_template_that_became_invalid_is_a_failure_of_the_upload() -> None:
    cluster = uploading()
    cluster.fail_job(cluster.objects["Job", NAME])
    template = {"spec": {"restartPolicy": "Always"}}
    cluster.edit(lambda spec: spec["dataset"].update(preprocessing={"template": template}))
    cluster.reconcile()
    cluster.now += timedelta(minutes=1)
    for _ in range(2):
        cluster.reconcile()
    assert uploaded(cluster)[1] == "UploadFailed"
    assert "restartPolicy" in uploaded(cluster)[2]
    assert ended_well(cluster)


def test_an_upload_on_a_lost_node_starts_again() -> None:
    cluster = uploading()
    former = cluster.objects["Job", NAME]
    cluster.slots["c"] = 3
    cluster.strand(former, "c")
    for _ in range(2):
        cluster.reconcile()
    assert cluster.objects["Job", NAME]["metadata"]["uid"] != former["metadata"]["uid"]
    cluster.settle()
    assert uploaded(cluster)[:2] == ("True", "Uploaded")
    assert cluster.status.upload is None


def test_an_upload_ends_although_another_container_of_its_pod_runs_on() -> None:
    cluster = uploading()
    cluster.hold(cluster.objects["Job", NAME])
    for _ in range(2):
        cluster.reconcile()
    assert uploaded(cluster)[:2] == ("True", "Uploaded")
    assert NAME not in names(cluster, "Job")


@pytest.mark.parametrize("cut_after", range(5))
def test_it_is_safe_to_cut_anywhere(cut_after: int) -> None:
    cluster = play(make(), is_over_after_training)
    for number in range(40):
        cluster.turn()
        if number == 4:
            for job in cluster.unfinished_jobs():
                cluster.fail_job(job)
        cluster.reconcile(cut_after=cut_after)
        cluster.reconcile(repeat=True)
        cluster.now += timedelta(seconds=5)
    cluster.settle()
    assert ended_well(cluster)
    assert uploaded(cluster)[:2] == ("True", "Uploaded")
    cluster.check_rest()


def is_over_after_training(cluster: SimulatedCluster) -> bool:
    cluster.finish_training()
    return is_over(cluster)
