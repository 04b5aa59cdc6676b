"""Objects of another version of the operator, for tests of upgrades and of their way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.fake_api_server import FakeApiServer
from support.operator_harness import Harness, with_images

Manifest = dict[str, Any]
Edit = Callable[[Manifest], None]

ACTIVE = {"active": 1}


def set_suspend(value: bool) -> Edit:
    """The edit that suspends or resumes a job."""
    return lambda item: item["spec"].setdefault("runPolicy", {}).update(suspend=value)


def written_by_a_newer_operator(item: Manifest) -> None:
    """Put fields and values into a job that this version does not know."""
    item["spec"]["training"]["ringSize"] = 4
    item["spec"].setdefault("runPolicy", {})["cleanPodPolicy"] = "Helpers"
    item["metadata"]["fromTheFuture"] = {}
    status = item["status"]
    status["phase"] = "Archiving" if status["phase"] == "Succeeded" else status["phase"]
    status["region"] = {"name": "north", "racks": [1, 2]}
    status["conditions"].append(
        {
            "type": "Mirrored",
            "status": "True",
            "reason": "Copied",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    )
    status["conditions"][0]["severity"] = "Info"
    if "training" in status:
        status["training"]["gpuSeconds"] = 17
        status["training"]["members"][0]["rack"] = "r1"


def uids(server: FakeApiServer) -> dict[str, str]:
    """The UIDs of pods and Jobs that are not being deleted, by name."""
    return {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for kind in ("Pod", "Job")
        for item in server.all(kind)
        if "deletionTimestamp" not in item["metadata"]
    }


async def looked_at(harness: Harness) -> None:
    """Have the job reconciled again and again, over hours."""
    for _ in range(3):
        await harness.let_pass(3600)


async def preparing(harness: Harness) -> None:
    """Bring a job to where its images are listed."""
    await harness.server.add(with_images())
    await harness.settle()
    await harness.server.change("Job", "digits-index", lambda item: item.update(status=ACTIVE))
    await harness.settle()
    assert harness.status()["phase"] == "Preparing"
