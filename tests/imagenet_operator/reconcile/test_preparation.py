"""The preparation: index, pack, seal, its deadline and its claims."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.sample import Preparation, Sample
from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource.dataset_status import DatasetStatus, ImageCounts
from support.job_stories import (
    ROOMY,
    condition_of,
    ended_well,
    is_running,
    make,
    names,
    play,
    reasons,
)
from support.job_table import PREPARED, manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster


@pytest.mark.parametrize("role", ["index", "pack", "seal"])
def test_a_step_that_fails_fails_the_job_in_its_own_words(role: str) -> None:
    cluster = play(make(), lambda found: f"digits-{role}" in names(found, "Job"))
    cluster.fail_job(cluster.objects["Job", f"digits-{role}"], "class n01440764 is truncated")
    cluster.settle()
    words = f"{role}: class n01440764 is truncated"
    assert condition_of(cluster.status, "Failed") == ("True", "PreparationFailed", words)
    assert condition_of(cluster.status, "DatasetReady") == ("False", "PreparationFailed", words)
    assert cluster.created_pods == []


def is_complete(cluster: SimulatedCluster, name: str) -> bool:
    job = cluster.objects.get(("Job", name))
    return job is not None and bool(job["status"].get("conditions"))


def hold_next(cluster: SimulatedCluster, code: int = 0) -> None:
    """Let the programs of each Job end in pods in which another container runs on."""
    for job in cluster.unfinished_jobs():
        for _ in range(job["spec"]["parallelism"] - job["status"].get("active", 0)):
            cluster.hold(job, code)


def test_a_container_that_never_ends_does_not_hold_up_the_preparation() -> None:
    cluster = make()
    cluster.index_result["shards"] = 9
    for _ in range(20):
        cluster.reconcile()
        hold_next(cluster)
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("True", "Sealed")
    assert names(cluster, "Job") == [], "their pods would take room"
    assert cluster.created_pods
    said = [event.message for event in cluster.events if event.reason == "ContainerStillRuns"]
    assert [message.split("-")[1] for message in said] == ["index", "pack", "seal"]
    assert_says(said[0], "program has ended", "container istio-proxy still runs")


def test_a_failed_program_is_counted_although_another_container_runs_on() -> None:
    cluster = play(make(), lambda found: "digits-index" in names(found, "Job"))
    held = cluster.hold(cluster.objects["Job", "digits-index"], 1)
    decision = cluster.reconcile()
    assert [(item.kind, item.name) for item in decision.delete] == [
        ("Pod", held["metadata"]["name"])
    ]
    assert reasons(cluster)[-1] == "ContainerStillRuns"


def test_a_result_is_recorded_before_its_held_pod_goes() -> None:
    cluster = play(make(), lambda found: "digits-index" in names(found, "Job"))
    cluster.hold(cluster.objects["Job", "digits-index"])
    assert cluster.reconcile().delete == ()
    assert cluster.status.listed is not None
    assert [item.name for item in cluster.reconcile().delete] == ["digits-index"]


def test_index_runs_again_if_its_pod_went_before_it_was_read() -> None:
    cluster = make()
    while not is_complete(cluster, "digits-index"):
        cluster.reconcile()
        cluster.turn()
    first = cluster.objects["Job", "digits-index"]["metadata"]["uid"]
    cluster.lose_job_pods()
    cluster.reconcile()
    assert names(cluster, "Job") == []
    cluster.reconcile()
    assert cluster.objects["Job", "digits-index"]["metadata"]["uid"] != first
    cluster.settle()
    assert ended_well(cluster)


def test_the_condition_says_what_reading_takes_and_the_status_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = play(make(), lambda found: "digits-index" in names(found, "Job"))
    expected = Preparation(
        listing_requests=1200,
        listing_bytes=310 << 20,
        listing_seconds=240,
        packing_requests=1250,
        packing_bytes=20 << 30,
        packing_seconds=4800,  # in one of 8 pods
    )
    with monkeypatch.context() as patch:
        patch.setattr(
            cluster, "sample", lambda: Sample(cluster.now, preparation={"index": expected})
        )
        cluster.reconcile()
    *state, message = condition_of(cluster.status, "DatasetReady")
    assert state == ["False", "Indexing"]
    assert_says(message, "index", "about 1,200 requests, 310 MiB, 4 minutes")
    assert_says(message, "pack", "about 1,250 requests, 20 GiB, at least 10 minutes")
    # After index, the requests and bytes of pack are those of the plan.
    cluster.index_result["packing"] = {"requests": 9, "bytes": 8 << 20, "estimatedSeconds": 56}
    play(cluster, lambda found: "digits-pack" in names(found, "Job"))
    *state, message = condition_of(cluster.status, "DatasetReady")
    assert state == ["False", "Packing"]
    assert_says(message, "shards", " 9 requests, 8 MiB, at least 7 seconds")
    cluster.settle()
    assert ended_well(cluster)
    document = cluster.status.to_manifest()["dataset"]
    assert document["listing"] == {"requests": 1200, "bytes": 310 << 20, "estimatedSeconds": 240}
    assert document["packing"] == {"requests": 9, "bytes": 8 << 20, "estimatedSeconds": 7}
    assert document["sealed"]


def test_a_result_that_cannot_be_read_fails_the_job() -> None:
    cluster = make()
    cluster.index_result = {"key": "k"}
    cluster.settle()
    _, reason, message = condition_of(cluster.status, "Failed")
    assert reason == "PreparationFailed"
    assert_says(message, "index", '{"key": "k"}')


def test_the_status_says_how_many_images_a_core_decodes() -> None:
    cluster = play(make(), is_running)
    assert cluster.status.dataset is not None
    assert cluster.status.dataset.decoded_images_per_second == 512.3


def test_without_the_pods_of_pack_the_speed_of_a_core_is_not_known() -> None:
    cluster = make()
    while not is_complete(cluster, "digits-pack"):
        cluster.reconcile()
        cluster.turn()
    cluster.lose_job_pods()
    play(cluster, is_running)
    assert cluster.status.dataset is not None
    assert cluster.status.dataset.decoded_images_per_second is None


def test_skipped_images_are_an_event() -> None:
    cluster = make()
    cluster.seal_result = {"images": {"train": 1198, "validation": 99}, "skipped": 3}
    play(cluster, is_running)
    found = cluster.status.dataset
    assert found is not None
    assert (found.images.train, found.images.validation, found.skipped_images) == (1198, 99, 3)
    skipped = cluster.events[1]
    assert (skipped.type, skipped.reason) == ("Warning", "ImagesSkipped")
    assert_says(skipped.message, "3 damaged images", "left out", "skipped.jsonl")


FINDINGS = ["2 validation images look like a training image", "the classes are unbalanced"]


def warnings_of(cluster: SimulatedCluster) -> list[str]:
    return [event.message for event in cluster.events if event.reason == "DatasetFindings"]


def test_findings_are_in_the_status_and_one_event_and_the_job_trains() -> None:
    cluster = make()
    cluster.seal_result = {**cluster.seal_result, "findings": FINDINGS}
    play(cluster, is_running)
    assert cluster.status.dataset is not None
    assert cluster.status.dataset.findings == tuple(FINDINGS)
    assert warnings_of(cluster) == ["; ".join(FINDINGS)]


def test_the_findings_of_a_reused_dataset_are_said_too() -> None:
    cluster = make()
    cluster.index_result = {**cluster.index_result, "sealed": True, "findings": FINDINGS}
    play(cluster, is_running)
    assert warnings_of(cluster) == ["; ".join(FINDINGS)]


def test_without_findings_nothing_is_said() -> None:
    cluster = play(make(), is_running)
    assert cluster.status.dataset is not None
    assert "findings" not in cluster.status.dataset.to_manifest()
    assert warnings_of(cluster) == []


@pytest.mark.parametrize("findings", [["x" * 2000], ["x"] * 9, "x"])
def test_findings_beyond_the_limits_of_the_status_are_left_out(findings: object) -> None:
    cluster = make()
    cluster.seal_result = {**cluster.seal_result, "findings": findings}
    play(cluster, is_running)
    assert warnings_of(cluster) == []


def test_what_a_dataset_lacks_of_its_source_is_in_the_status_and_an_event() -> None:
    cluster = make()
    cluster.index_result = {
        **cluster.index_result, "passedOver": {".txt": 2, ".tar.gz": 1}, "unknownLabels": 4,
    }  # fmt: skip
    play(cluster, is_running)
    found = cluster.status.dataset
    assert found is not None
    assert (found.passed_over, found.unknown_labels) == ({".txt": 2, ".tar.gz": 1}, 4)
    (event,) = (event for event in cluster.events if event.reason == "DatasetReady")
    assert_says(event.message, "left out: 1 class with too few images", "4 validation images")
    assert_says(event.message, "unknown classes", "3 other files (.txt 2, .tar.gz 1)")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, ""),
        ({"passed_over": {}, "unknown_labels": 0}, ""),
        ({"dropped_classes": 2}, "2 classes with too few images"),
        ({"skipped_images": 1}, "1 damaged image"),
        ({"skipped_images": 1200, "unknown_labels": 1},
         "1,200 damaged images, 1 validation image of an unknown class"),
        ({"passed_over": {"hidden": 1}}, "1 other file (hidden 1)"),
        ({"bounding_boxes": {"boxes": 9, "clamped": 3}}, ""),
        ({"bounding_boxes": {"empty": 2, "ofOtherClasses": 1, "damagedAnnotations": 1}},
         "2 empty bounding boxes, 1 bounding box of other classes, 1 damaged annotation"),
    ],
)  # fmt: skip
def test_what_is_left_out_is_one_line(counts: dict[str, Any], words: str) -> None:
    found = DatasetStatus(key="k", classes=1, images=ImageCounts(), shards=1, **counts)
    assert found.left_out == words


def test_seal_succeeds_without_its_counts() -> None:
    cluster = make()
    while not cluster.is_sealed:
        cluster.reconcile()
        cluster.turn()
    cluster.lose_job_pods()
    play(cluster, is_running)
    found = cluster.status.dataset
    assert found is not None
    assert (found.images.train, found.skipped_images) == (1200, 0)


def test_a_job_that_is_lost_is_made_again() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    cluster.lose_job(cluster.objects["Job", "digits-pack"])
    cluster.reconcile()
    assert "digits-pack" in names(cluster, "Job")


def test_a_step_whose_pod_is_lost_with_its_node_is_begun_again() -> None:
    cluster = play(
        make({"a": 3, "b": 3, "c": 3}), lambda found: "digits-pack" in names(found, "Job")
    )
    former = cluster.objects["Job", "digits-pack"]
    cluster.strand(former, "b")
    cluster.reconcile()
    assert reasons(cluster) == ["NodeLost"]
    cluster.reconcile()
    assert cluster.objects["Job", "digits-pack"]["metadata"]["uid"] != former["metadata"]["uid"]
    assert cluster.status.restarts == cluster.status.disruptions == 0
    cluster.settle()
    assert ended_well(cluster)
    assert reasons(cluster).count("NodeLost") == 1


def test_what_index_found_is_recorded_before_anything_relies_on_it() -> None:
    cluster = make()
    while not is_complete(cluster, "digits-index"):
        cluster.reconcile()
        cluster.turn()
    decision = cluster.reconcile()
    assert (decision.create, decision.requeue_after) == ((), timedelta(0))
    assert decision.status.dataset is not None
    assert [item["metadata"]["name"] for item in cluster.reconcile().create] == ["digits-pack"]


def test_the_preparation_has_a_deadline_that_stands_still_while_suspended() -> None:
    cluster = make(preparationDeadlineSeconds=100)
    assert cluster.reconcile().requeue_after == timedelta(seconds=100)
    cluster.now += timedelta(seconds=60)
    cluster.suspend(True)
    cluster.reconcile()
    cluster.now += timedelta(seconds=5000)
    cluster.suspend(False)
    assert cluster.reconcile().requeue_after == timedelta(seconds=40)
    cluster.now += timedelta(seconds=40)
    cluster.settle()
    assert condition_of(cluster.status, "Failed") == (
        "True",
        "PreparationDeadlineExceeded",
        "preparing the dataset took over 100 s",
    )
    assert cluster.unfinished_jobs() == []
    assert cluster.status.preparation is not None
    assert cluster.status.preparation.since is None, "its clock stops"


def test_a_claim_that_is_being_deleted_is_waited_for() -> None:
    cluster = make()
    cluster.reconcile()
    claim = cluster.objects["PersistentVolumeClaim", "digits-dataset"]
    claim["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert cluster.reconcile().requeue_after == ReconcileSettings().requeue_interval
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("False", "ClaimTerminating")
    cluster.remove(claim)
    made = cluster.reconcile().create
    assert [item["metadata"]["name"] for item in made] == ["digits-dataset"]


def test_retention_is_carried_over_to_claims_while_the_job_is_there() -> None:
    cluster = play(make(), lambda found: bool(names(found, "PersistentVolumeClaim")))
    claim = cluster.objects["PersistentVolumeClaim", "digits-dataset"]
    assert not claim["metadata"].get("ownerReferences")
    cluster.document["spec"]["runPolicy"]["retentionPolicy"] = "Delete"
    cluster.reconcile()
    assert claim["metadata"]["ownerReferences"][0]["uid"] == cluster.job.metadata.uid
    cluster.settle()
    cluster.document["spec"]["runPolicy"]["retentionPolicy"] = "Retain"
    cluster.reconcile()
    assert claim["metadata"]["ownerReferences"] == []


def test_a_claim_that_the_job_does_not_ask_for_is_left_alone() -> None:
    """It is of a former job of this name, and keeps what that one has written."""
    cluster = make(retentionPolicy="Delete")
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "digits-output",
            "namespace": "vision",
            "uid": "of-a-former-job",
            "labels": labels.of_child("digits", "output"),
            "deletionTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {"accessModes": ["ReadWriteMany"]},
    }
    cluster.objects["PersistentVolumeClaim", "digits-output"] = made
    cluster.reconcile()
    assert "digits-index" in names(cluster, "Job")
    del made["metadata"]["deletionTimestamp"]
    cluster.settle()
    assert ended_well(cluster)
    assert not made["metadata"].get("ownerReferences")


def test_the_time_that_the_preparation_took_stays_in_the_status() -> None:
    cluster = make()
    cluster.reconcile()
    cluster.now += timedelta(seconds=77)
    play(cluster, lambda found: found.status.phase == "Starting")
    assert cluster.status.preparation is not None
    assert cluster.status.preparation.since is None
    assert cluster.status.preparation.seconds >= 77


def verifying(*, prepared: bool) -> SimulatedCluster:
    """A job that asks for checksums, at the point where they are compared."""
    source = {"source": PREPARED, "volume": None} if prepared else {}
    cluster = SimulatedCluster(manifest(dataset={**source, "verify": "Checksums"}), ROOMY)
    cluster.is_sealed = True
    cluster.index_result["sealed"] = True
    return play(cluster, lambda found: "digits-seal" in names(found, "Job"))


@pytest.mark.parametrize("prepared", [True, False])
def test_checksums_of_a_sealed_dataset_are_compared_before_any_pod_that_trains(
    prepared: bool,
) -> None:
    cluster = verifying(prepared=prepared)
    status, reason, message = condition_of(cluster.status, "DatasetReady")
    assert (status, reason) == ("False", "Verifying")
    assert "checksums" in message
    assert cluster.created_pods == []
    assert names(cluster, "Job") == (
        ["digits-seal"] if prepared else ["digits-index", "digits-seal"]
    )
    play(cluster, is_running)
    status, reason, message = condition_of(cluster.status, "DatasetReady")
    assert (status, reason) == ("True", "Prepared" if prepared else "Reused")
    assert message.endswith("all checksums are right")
    cluster.settle()
    assert ended_well(cluster)


@pytest.mark.parametrize("prepared", [True, False])
def test_a_damaged_shard_fails_the_job_with_its_name(prepared: bool) -> None:
    cluster = verifying(prepared=prepared)
    words = "/data/x: 1 of 4 shards are damaged: train-1.rec: its checksum is wrong"
    cluster.fail_job(cluster.objects["Job", "digits-seal"], words)
    cluster.settle()
    assert condition_of(cluster.status, "Failed") == (
        "True",
        "PreparationFailed",
        f"seal: {words}",
    )
    assert cluster.created_pods == []


def test_a_fresh_dataset_is_not_read_twice() -> None:
    cluster = SimulatedCluster(manifest(dataset={"verify": "Checksums"}), ROOMY)
    play(cluster, is_running)
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("True", "Sealed")
    assert (
        "--verify"
        not in cluster.objects["Job", "digits-seal"]["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
    )


def test_a_suspended_job_verifies_when_it_is_resumed() -> None:
    document = manifest(
        dataset={"source": PREPARED, "volume": None, "verify": "Checksums"},
        run_policy={"suspend": True},
    )
    cluster = SimulatedCluster(document, ROOMY)
    cluster.is_sealed = True
    for _ in range(4):
        cluster.turn()
        cluster.reconcile()
    assert names(cluster, "Job") == []
    assert condition_of(cluster.status, "DatasetReady")[:2] == ("False", "Suspended")
    cluster.suspend(False)
    cluster.settle()
    assert ended_well(cluster)
