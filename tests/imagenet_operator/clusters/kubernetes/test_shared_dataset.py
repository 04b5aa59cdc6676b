"""Two jobs need one dataset on one claim: one prepares it, and the other waits."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import metrics
from support.asynchronous import asynchronous
from support.operator_harness import Harness, claim, cluster_of_one, succeeded_pod, with_images
from support.sentences import assert_says
from support.simulated_objects import INDEX_RESULT
from support.version_skew import set_suspend

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "message": "it is damaged"}]}


def on_the_claim(name: str) -> Any:
    job = with_images()
    job["metadata"]["name"] = name
    job["spec"]["dataset"]["volume"] = {"claimName": "shared"}
    return job


async def complete(harness: Harness, name: str, message: str = "") -> None:
    found = harness.server.get("Job", name)
    assert found is not None
    await harness.server.add(succeeded_pod(found, message))
    await harness.server.change("Job", name, lambda item: item.update(status=COMPLETE))
    await harness.settle()


async def list_images(harness: Harness, name: str) -> None:
    await complete(harness, f"{name}-index", json.dumps(INDEX_RESULT))


def steps(harness: Harness) -> set[str]:
    found = {item["metadata"]["name"] for item in harness.server.all("Job")}
    return {name for name in found if not name.endswith("-index")}


@contextlib.asynccontextmanager
async def two_jobs() -> AsyncIterator[tuple[Harness, str, str]]:
    """Two jobs that list their images: the harness, the older and the younger one."""
    async with cluster_of_one(claims=[claim(), claim(name="raw")]) as harness:
        added = [await harness.server.add(on_the_claim(name)) for name in ("one", "two")]
        await harness.settle()
        older, younger = sorted(
            (item["metadata"] for item in added),
            key=lambda item: (item["creationTimestamp"], item["uid"]),
        )
        yield harness, older["name"], younger["name"]


@asynchronous
async def test_the_younger_job_waits_and_packs_nothing() -> None:
    async with two_jobs() as (harness, older, younger):
        await list_images(harness, older)
        await list_images(harness, younger)
        assert steps(harness) == {f"{older}-pack"}
        ready = harness.condition("DatasetReady", younger)
        assert ready["reason"] == "WaitingForJob"
        assert_says(ready["message"], older, "same dataset", "same claim")
        assert harness.status(younger)["time"]["phase"] == "queueing"
        assert harness.events().count("WaitingForJob") == 1

        await complete(harness, f"{older}-pack")
        await complete(harness, f"{older}-seal")
        await harness.let_pass(60)
        assert steps(harness) == {f"{older}-pack", f"{older}-seal", f"{younger}-seal"}
        await complete(harness, f"{younger}-seal")
        assert harness.condition("DatasetReady", younger)["status"] == "True"
        assert {name for name in harness.pods() if name.startswith(f"{younger}-r0-")}


async def fail(harness: Harness, name: str) -> None:
    await harness.server.change("Job", f"{name}-pack", lambda item: item.update(status=FAILED))


async def suspend(harness: Harness, name: str) -> None:
    await harness.server.change("ImageNetJob", name, set_suspend(True))


async def delete(harness: Harness, name: str) -> None:
    await harness.server.remove("ImageNetJob", name)


@pytest.mark.parametrize("stop", [fail, suspend, delete])
@asynchronous
async def test_the_next_job_takes_over(stop: Callable[[Harness, str], Awaitable[None]]) -> None:
    async with two_jobs() as (harness, older, younger):
        await list_images(harness, older)
        await list_images(harness, younger)
        await stop(harness, older)
        await harness.settle()
        await harness.let_pass(60)
        assert f"{younger}-pack" in steps(harness)
        assert harness.condition("DatasetReady", younger)["reason"] == "Packing"


@asynchronous
async def test_the_job_that_packs_already_goes_first() -> None:
    async with two_jobs() as (harness, older, younger):
        await list_images(harness, younger)
        await list_images(harness, older)
        assert steps(harness) == {f"{younger}-pack"}
        assert younger in harness.condition("DatasetReady", older)["message"]


@asynchronous
async def test_a_job_that_waits_for_another_one_has_its_deadline_and_is_reported() -> None:
    async with two_jobs() as (harness, older, younger):
        await list_images(harness, older)
        await list_images(harness, younger)
        policy = {"preparationDeadlineSeconds": 3600}
        await harness.server.change(
            "ImageNetJob", younger, lambda item: item["spec"].update(runPolicy=policy)
        )
        await harness.let_pass(1800)
        assert harness.condition("DatasetReady", younger)["reason"] == "WaitingForJob"
        harness.operator.measure()
        # Operators of other tests in this process have samples of their own.
        samples = next(iter(metrics.WAITING.collect())).samples
        waits = {(item.labels["imagenet_job"], item.labels["reason"]) for item in samples}
        assert (younger, "WaitingForJob") in waits
        await harness.let_pass(1801)
        failed = harness.condition("Failed", younger)
        assert failed["reason"] == "PreparationDeadlineExceeded"
        assert f"ImageNetJob {older} prepares the same dataset" in failed["message"]
