"""Specs with parts that this version of the operator does not know: jobs wait, none is harmed."""

from __future__ import annotations

import copy
import re

import pytest

from imagenet_operator.clusters.kubernetes import objects
from support.api_requests import creates_a_pod, writes_status
from support.asynchronous import asynchronous
from support.operator_harness import (
    FIRST,
    SECOND,
    Harness,
    claim,
    cluster_of_one,
    job,
    started,
    with_images,
)
from support.sentences import assert_says
from support.version_skew import (
    Edit,
    Manifest,
    looked_at,
    preparing,
    set_suspend,
    uids,
    written_by_a_newer_operator,
)

UNKNOWN = {
    "field": (lambda spec: spec["training"].update(ringSize=4), "spec.training.ringSize"),
    "kind": (
        lambda spec: spec["training"].update(strategy={"ring": {}}),
        "spec.training.strategy.ring",
    ),
    "value": (lambda spec: spec["training"].update(framework="JAX"), "spec.training.framework"),
    "bound": (
        lambda spec: spec["training"]["workers"].update(replicas=100_000),
        "spec.training.workers.replicas",
    ),
    "required value": (
        lambda spec: spec["training"].update(batchSize=2**40),
        "spec.training.batchSize",
    ),
    "source": (
        lambda spec: spec["dataset"].update(source={"torrent": {}}),
        "spec.dataset.source.torrent",
    ),
    "gang": (
        lambda spec: spec.update(runPolicy={"schedulingPolicy": {"gang": "Quorum"}}),
        "spec.runPolicy.schedulingPolicy.gang",
    ),
}


def make_too_large(spec: Manifest) -> None:
    variable = {"name": "X", "value": "x" * objects.JOB_BYTES}
    container = {"name": "main", "env": [variable]}
    spec["training"]["workers"]["template"] = {"spec": {"containers": [container]}}


@asynchronous
async def test_a_new_job_that_is_too_large_fails_with_its_size() -> None:
    async with cluster_of_one() as harness:
        large = job()
        make_too_large(large["spec"])
        await harness.server.add(large)
        await harness.settle()
        failed = harness.condition("Failed")
        assert failed["reason"] == "InvalidSpec"
        assert re.match(r"spec: \D* 26\d,\d{3} bytes ", failed["message"])
        assert_says(failed["message"], "without its status", "write at most 262,144")
        assert harness.server.all("Pod") == []


@asynchronous
async def test_a_job_that_grew_too_large_while_suspended_waits_until_it_is_small_again() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        await harness.server.change("ImageNetJob", "digits", set_suspend(True))
        await harness.settle()
        await harness.finish_deleting()
        await harness.settle()
        await harness.server.change(
            "ImageNetJob", "digits", lambda item: make_too_large(item["spec"])
        )
        await harness.server.change("ImageNetJob", "digits", set_suspend(False))
        await harness.settle()
        running = harness.condition("Running")
        assert (running["status"], running["reason"]) == ("False", "UnsupportedSpec")
        assert "write at most 262,144" in running["message"]
        assert harness.pods() == []

        def shorten(item: Manifest) -> None:
            del item["spec"]["training"]["workers"]["template"]

        await harness.server.change("ImageNetJob", "digits", shorten)
        await harness.settle()
        assert harness.pods() == SECOND


@pytest.mark.parametrize(("edit", "path"), UNKNOWN.values(), ids=UNKNOWN)
@asynchronous
async def test_a_job_that_has_not_started_waits(edit: Edit, path: str) -> None:
    async with cluster_of_one() as harness:
        newer = job()
        edit(newer["spec"])
        await harness.server.add(newer)
        await harness.settle()
        await looked_at(harness)

        created = harness.condition("Created")
        assert (created["status"], created["reason"]) == ("False", "UnsupportedSpec")
        assert path in created["message"] and "upgrade" in created["message"]
        assert harness.status()["phase"] == "Created"
        assert harness.events() == ["UnsupportedSpec"]
        assert [item for item in harness.server.writes() if creates_a_pod(item)] == []
        assert len([item for item in harness.server.writes() if writes_status(item)]) == 1

        def known(item: Manifest) -> None:
            item["spec"] = job()["spec"]

        await harness.server.change("ImageNetJob", "digits", known)
        await harness.settle()
        assert harness.pods() == FIRST
        assert harness.condition("Created")["reason"] == "JobAccepted"


@pytest.mark.parametrize(("edit", "path"), UNKNOWN.values(), ids=UNKNOWN)
@asynchronous
async def test_a_running_job_goes_on_and_a_failure_waits(edit: Edit, path: str) -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        before = uids(harness.server)
        await harness.server.change("ImageNetJob", "digits", lambda item: edit(item["spec"]))
        await harness.settle()
        await looked_at(harness)
        assert uids(harness.server) == before
        created = harness.condition("Created")
        assert (created["status"], created["reason"]) == ("True", "UnsupportedSpec")
        assert path in created["message"]
        assert harness.status()["phase"] == "Running"

        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        await harness.finish_deleting()
        await looked_at(harness)
        assert harness.pods() == []
        assert harness.status()["restarts"] == 1
        assert harness.condition("Running")["reason"] == "UnsupportedSpec"

        def known(item: Manifest) -> None:
            item["spec"] = job()["spec"]

        await harness.server.change("ImageNetJob", "digits", known)
        await harness.settle()
        assert harness.pods() == SECOND
        assert harness.condition("Created")["reason"] == "JobAccepted"


@asynchronous
async def test_an_unknown_field_stops_neither_suspension_nor_deletion() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        await harness.server.change("ImageNetJob", "digits", written_by_a_newer_operator)
        await harness.server.change("ImageNetJob", "digits", set_suspend(True))
        await harness.settle()
        await harness.finish_deleting()
        await harness.settle()
        assert harness.pods() == []
        assert harness.status()["phase"] == "Suspended"

        await harness.server.remove("ImageNetJob", "digits")
        await harness.settle()
        assert not harness.operator.cluster.jobs.all()


@asynchronous
async def test_no_preparation_job_starts_but_the_result_of_one_is_recorded() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        await preparing(harness)
        await harness.server.change("ImageNetJob", "digits", written_by_a_newer_operator)
        await harness.settle()
        await harness.server.change("ImageNetJob", "digits", set_preparation_deadline)
        await harness.server.add(index_pod(harness))
        await harness.server.change("Job", "digits-index", lambda item: item.update(COMPLETE))
        await harness.settle()
        await looked_at(harness)

        assert [item["metadata"]["name"] for item in harness.server.all("Job")] == ["digits-index"]
        assert harness.status()["dataset"]["key"] == "k1"
        assert harness.condition("DatasetReady")["reason"] == "UnsupportedSpec"


@asynchronous
async def test_a_suspended_preparation_resumes_after_the_upgrade() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        await preparing(harness)
        await harness.server.change("ImageNetJob", "digits", set_suspend(True))
        await harness.server.change("Job", "digits-index", lambda item: item.update(status={}))
        await harness.settle()
        assert is_suspended(harness)

        await harness.server.change("ImageNetJob", "digits", written_by_a_newer_operator)
        await harness.server.change("ImageNetJob", "digits", set_suspend(False))
        await harness.settle()
        await looked_at(harness)
        assert is_suspended(harness)
        assert harness.condition("Suspended")["status"] == "True"

        await harness.server.change(
            "ImageNetJob", "digits", lambda item: item.update(spec=with_images()["spec"])
        )
        await harness.settle()
        assert not is_suspended(harness)
        assert harness.condition("Suspended")["status"] == "False"


def is_suspended(harness: Harness) -> bool:
    index = harness.server.get("Job", "digits-index")
    return index is not None and bool(index["spec"]["suspend"])


def set_preparation_deadline(item: Manifest) -> None:
    """Allow an hour for the preparation; to wait for an upgrade does not count."""
    item["spec"]["runPolicy"]["preparationDeadlineSeconds"] = 3600


COMPLETE = {
    "status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
}
RESULT = '{"key": "k1", "classes": 2, "images": {"train": 4, "rotated": 1}, "shards": 2, "hue": {}}'
"""What an index of a newer version reports."""


def index_pod(harness: Harness) -> Manifest:
    owner = harness.server.get("Job", "digits-index")
    assert owner is not None
    template = copy.deepcopy(owner["spec"]["template"])
    metadata = {
        "name": "digits-index-x",
        "namespace": "vision",
        "labels": template["metadata"]["labels"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "digits-index",
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ],
    }
    ended = {"exitCode": 0, "message": RESULT, "finishedAt": "2026-01-02T03:05:05Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template["spec"],
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
        },
    }
