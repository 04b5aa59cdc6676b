"""A job in a queue: the condition has the words of Kueue's workload, where it may be read."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import metrics, objects
from imagenet_spec.resource import queue
from support.api_requests import Refusal
from support.asynchronous import asynchronous
from support.operator_harness import Harness, claim, cluster_of_one, job, with_images

Manifest = dict[str, Any]
INACTIVE = "LocalQueue lq is inactive"


def queued(document: Manifest) -> Manifest:
    document["metadata"]["labels"] = {queue.NAME: "lq"}
    return document


def workload(name: str, uid: str = "") -> Manifest:
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": INACTIVE}
    return {
        "kind": objects.WORKLOAD.name,
        "apiVersion": objects.WORKLOAD.api_version,
        "metadata": {"name": name, "namespace": "vision", "labels": {queue.JOB_UID: uid}},
        "status": {"conditions": [waits]},
    }


async def hold(harness: Harness) -> None:
    """Do to the pods of an attempt what Kueue's webhook does."""

    def gate(pod: Manifest) -> None:
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]

    for name in harness.pods():
        await harness.server.change("Pod", name, gate)


@asynchronous
async def test_the_condition_has_the_words_of_the_workload() -> None:
    async with cluster_of_one(claims=[claim()]) as harness:
        await harness.server.add(workload("digits-r0"))
        await harness.server.add(queued(job()))
        await harness.settle()
        await hold(harness)
        for _ in range(2):
            await harness.let_pass(40)
        found = harness.condition("Running")
        assert (found["reason"], found["message"]) == ("Queued", f"waiting in queue lq: {INACTIVE}")
        harness.operator.measure()
        samples = next(iter(metrics.WAITING.collect())).samples
        waits = {(item.labels["imagenet_job"], item.labels["reason"]) for item in samples}
        assert ("digits", "Queued") in waits


@asynchronous
async def test_a_job_of_the_preparation_is_found_by_its_uid() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        await harness.server.add(queued(with_images()))
        await harness.settle()
        held = harness.server.get("Job", "digits-index")
        assert held is not None
        await harness.server.add(workload("job-another", "another-uid"))
        await harness.server.add(workload("job-digits-index", held["metadata"]["uid"]))
        await harness.server.change(
            "Job", "digits-index", lambda item: item["spec"].update(suspend=True)
        )
        for _ in range(2):
            await harness.let_pass(40)
        found = harness.condition("DatasetReady")
        assert (found["reason"], found["message"]) == (
            "Queued",
            f"Kueue holds the index Job: {INACTIVE}",
        )


@pytest.mark.parametrize("code", [403, 404])
@asynchronous
async def test_without_the_right_or_the_api_the_queue_is_named(code: int) -> None:
    def reads_a_workload(asked: Any) -> bool:
        return bool(asked.kind == objects.WORKLOAD.name)

    async with cluster_of_one(claims=[claim()]) as harness:
        harness.server.refuse(Refusal(code, "No", "no"), reads_a_workload)
        await harness.server.add(queued(job()))
        await harness.settle()
        await hold(harness)
        await harness.let_pass(40)
        assert harness.condition("Running")["message"] == "waiting in queue lq"
