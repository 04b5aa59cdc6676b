"""Claims that a job only names: read once, from the API server, when the job starts."""

import asyncio
from typing import Any

from support.api_requests import Request
from support.asynchronous import asynchronous
from support.operator_harness import claim, cluster_of_one, job
from support.sentences import assert_says

Manifest = dict[str, Any]
CLAIM = claim()["metadata"]["name"]


@asynchronous
async def test_workers_share_a_node_for_a_claim_that_one_node_can_mount() -> None:
    async with cluster_of_one(claims=[claim("ReadWriteOnce")]) as harness:
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["singleNodeClaims"] == [CLAIM]
        worker = harness.server.get("Pod", "digits-r0-worker-0")
        assert worker is not None
        assert "podAffinity" in worker["spec"]["affinity"]
        assert harness.server.counts()["get", "PersistentVolumeClaim"] == 1


@asynchronous
async def test_a_claim_that_one_pod_can_mount_fails_a_job_of_two_workers() -> None:
    async with cluster_of_one(claims=[claim("ReadWriteOncePod")]) as harness:
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["phase"] == "Failed"
        assert harness.events() == ["InvalidSpec"]
        assert harness.pods() == []


@asynchronous
async def test_more_workers_than_the_claim_admits_fail_a_job_when_it_resumes() -> None:
    async with cluster_of_one(claims=[claim("ReadWriteOncePod")]) as harness:
        await harness.server.add(job(training={"workers": {"replicas": 1}}))
        await harness.settle()
        assert "digits-r0-worker-0" in harness.pods()

        await harness.server.change("ImageNetJob", "digits", suspended)
        await harness.settle()
        await harness.finish_deleting()
        await harness.settle()
        assert harness.status()["phase"] == "Suspended"
        await harness.server.change("ImageNetJob", "digits", resumed_with_two_workers)
        await harness.settle()

        assert harness.status()["phase"] == "Failed"
        assert "InvalidSpec" in harness.events()
        assert harness.pods() == []


def suspended(whole: Manifest) -> None:
    whole["spec"]["runPolicy"] = {"suspend": True}


def resumed_with_two_workers(whole: Manifest) -> None:
    whole["spec"]["runPolicy"] = {"suspend": False}
    whole["spec"]["training"]["workers"]["replicas"] = 2


@asynchronous
async def test_a_job_waits_for_a_claim_that_is_not_there_yet() -> None:
    async with cluster_of_one(claims=[]) as harness:
        await harness.server.add(job())
        await harness.settle()

        assert harness.pods() == []
        assert harness.events() == ["ClaimNotFound"]
        waits = harness.condition("Created")
        assert (waits["status"], waits["reason"]) == ("False", "ClaimNotFound")
        where = "spec.dataset.source.prepared.claimName"
        assert_says(waits["message"], where, f"PersistentVolumeClaim {CLAIM}", "waiting")
        # No watch reports claims that are not the operator's.
        assert harness.operator.loop.queue.next_due() is not None
        written = len(harness.server.writes())
        await harness.let_pass(60)
        assert len(harness.server.writes()) == written

        await harness.server.add(claim("ReadWriteOnce"))
        await harness.let_pass(60)
        assert len(harness.pods()) == 5
        assert harness.status()["singleNodeClaims"] == [CLAIM]
        assert harness.condition("Created")["status"] == "True"


@asynchronous
async def test_a_job_that_is_suspended_says_so_while_it_waits_for_its_claims() -> None:
    async with cluster_of_one(claims=[]) as harness:
        await harness.server.add(job(run_policy={"suspend": True}))
        await harness.settle()

        assert harness.status()["phase"] == "Suspended"
        assert harness.condition("Created")["reason"] == "ClaimNotFound"


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
        await harness.server.add(claim("ReadWriteOnce", name="another"))
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["singleNodeClaims"] == ["another"]
        worker = harness.server.get("Pod", "digits-r0-worker-0")
        assert worker is not None
        assert "another" in str(worker["spec"]["volumes"])


def name_another(whole: Manifest) -> None:
    whole["spec"]["dataset"]["source"]["prepared"]["claimName"] = "another"
