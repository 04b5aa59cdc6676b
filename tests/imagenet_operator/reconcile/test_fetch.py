"""The fetch, which stores a source in its cache before index."""

from __future__ import annotations

from datetime import timedelta

from support.job_stories import ROOMY, condition_of, ended_well, names, play
from support.job_table import FETCHED, manifest
from support.simulated_cluster import SimulatedCluster


def fetching() -> SimulatedCluster:
    """A job whose source has a cache, before its first step."""
    return SimulatedCluster(manifest(dataset={"source": FETCHED}), ROOMY)


def test_the_source_is_fetched_before_its_images_are_listed() -> None:
    cluster = play(fetching(), lambda found: "digits-fetch" in names(found, "Job"))
    assert names(cluster, "Job") == ["digits-fetch"]
    words = ("False", "Fetching", "fetching the source")
    assert condition_of(cluster.status, "DatasetReady") == words
    play(cluster, lambda found: "digits-index" in names(found, "Job"))
    assert cluster.status.to_manifest()["dataset"] == {
        "fetch": {"bytes": 5 << 30, "totalBytes": 5 << 30}
    }
    cluster.settle()
    assert ended_well(cluster)
    found = cluster.status.dataset
    assert found is not None
    assert found.key
    assert found.fetch is not None
    assert found.fetch.bytes == 5 << 30


def test_a_source_that_cannot_be_fetched_fails_the_job() -> None:
    cluster = play(fetching(), lambda found: "digits-fetch" in names(found, "Job"))
    cluster.fail_job(cluster.objects["Job", "digits-fetch"], "404 Not Found")
    cluster.settle()
    words = ("True", "PreparationFailed", "fetch: 404 Not Found")
    assert condition_of(cluster.status, "Failed") == words
    assert "digits-index" not in names(cluster, "Job")


def test_a_fetch_is_suspended_and_resumed() -> None:
    cluster = play(fetching(), lambda found: "digits-fetch" in names(found, "Job"))
    cluster.suspend(True)
    for _ in range(4):
        cluster.turn()
        cluster.reconcile()
    assert cluster.objects["Job", "digits-fetch"]["spec"]["suspend"] is True
    assert names(cluster, "Job") == ["digits-fetch"]
    assert condition_of(cluster.status, "DatasetReady")[1] == "Suspended"
    cluster.suspend(False)
    cluster.settle()
    assert ended_well(cluster)


def test_a_fetch_that_is_lost_runs_again_and_a_finished_one_does_not() -> None:
    cluster = play(fetching(), lambda found: "digits-fetch" in names(found, "Job"))
    cluster.lose_job(cluster.objects["Job", "digits-fetch"])
    cluster.reconcile()
    assert names(cluster, "Job") == ["digits-fetch"]
    play(cluster, lambda found: "digits-index" in names(found, "Job"))
    cluster.lose_job(cluster.objects["Job", "digits-fetch"])
    cluster.reconcile()
    assert names(cluster, "Job") == ["digits-index"]
    cluster.settle()
    assert ended_well(cluster)


def test_the_deadline_of_the_preparation_counts_the_fetch() -> None:
    document = manifest(dataset={"source": FETCHED}, run_policy={"preparationDeadlineSeconds": 100})
    cluster = SimulatedCluster(document, ROOMY)
    cluster.reconcile()
    cluster.now += timedelta(seconds=101)
    cluster.settle()
    assert condition_of(cluster.status, "Failed")[1] == "PreparationDeadlineExceeded"
