"""Claims that a job only names: read once, from the API server, when the job starts."""

import asyncio
from typing import Any

from support.api_requests import Request
from support.asynchronous import asynchronous
from support.operator_harness import cluster_of_one, job

Manifest = dict[str, Any]
CLAIM = job()["spec"]["dataset"]["source"]["prepared"]["claimName"]


def claim(*modes: str, name: str = CLAIM) -> Manifest:
    """A claim, that which the harness's job names, as somebody made it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"accessModes": list(modes)},
    }


@asynchronous
async def test_workers_share_a_node_for_a_claim_that_one_node_can_mount() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(claim("ReadWriteOnce"))
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["singleNodeClaims"] == [CLAIM]
        worker = harness.server.get("Pod", "digits-r0-worker-0")
        assert worker is not None
        assert "podAffinity" in worker["spec"]["affinity"]
        assert harness.server.counts()["get", "PersistentVolumeClaim"] == 1


@asynchronous
async def test_a_claim_that_one_pod_can_mount_fails_a_job_of_two_workers() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(claim("ReadWriteOncePod"))
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["phase"] == "Failed"
        assert harness.events() == ["InvalidSpec"]
        assert harness.pods() == []


@asynchronous
async def test_a_claim_that_is_not_there_yet_stops_nobody() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(job())
        await harness.settle()

        assert len(harness.pods()) == 5
        assert "singleNodeClaims" not in harness.status()


@asynchronous
async def test_a_job_that_starts_is_read_while_its_claims_are() -> None:
    """Neither answer comes before both are asked for, and then nothing more is."""
    async with cluster_of_one() as harness:
        asked: dict[str, asyncio.Event] = {
            "ImageNetJob": asyncio.Event(),
            "PersistentVolumeClaim": asyncio.Event(),
        }

        async def wait_for_both(request: Request) -> None:
            if request.verb == "get" and request.kind in asked:
                asked[request.kind].set()
                for event in asked.values():
                    await event.wait()

        harness.server.faults.append(wait_for_both)
        await harness.server.add(job())
        await harness.settle()

        assert len(harness.pods()) == 5
        reads = {name: times for name, times in harness.server.counts().items() if name[0] == "get"}
        assert reads == {("get", kind): 1 for kind in asked}
        # One pass made and recorded all of it.
        assert harness.server.counts()["update", "ImageNetJob"] == 1


@asynchronous
async def test_a_job_that_names_another_claim_by_now_starts_with_that_one() -> None:
    async with cluster_of_one() as harness:

        async def edit_before_it_is_read(request: Request) -> None:
            if (request.verb, request.kind) == ("get", "ImageNetJob"):
                harness.server.faults.clear()
                await harness.server.change("ImageNetJob", "digits", name_another)

        harness.server.faults.append(edit_before_it_is_read)
        await harness.server.add(claim("ReadWriteMany"))
        await harness.server.add(claim("ReadWriteOnce", name="another"))
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["singleNodeClaims"] == ["another"]
        worker = harness.server.get("Pod", "digits-r0-worker-0")
        assert worker is not None
        assert "another" in str(worker["spec"]["volumes"])


def name_another(whole: Manifest) -> None:
    """Have a job train on what is in another claim."""
    whole["spec"]["dataset"]["source"]["prepared"]["claimName"] = "another"
