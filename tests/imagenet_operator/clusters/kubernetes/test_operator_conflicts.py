"""The operator beside others: a second operator, strangers' objects, refusals, broken watches."""

from support.api_requests import Refusal, creates_a_pod, writes_status
from support.asynchronous import asynchronous
from support.operator_harness import (
    FIRST,
    SECOND,
    claim,
    cluster_of,
    cluster_of_one,
    job,
    node,
    running,
    started,
    with_images,
)


@asynchronous
async def test_two_operators_at_once_do_no_harm() -> None:
    """Whatever each of them does, every attempt has each of its pods once."""
    async with (
        cluster_of(node("n1")) as server,
        running(server) as first,
        running(server) as second,
    ):
        for name in ("digits", "other", "third"):
            await server.add(job(name))
        for _ in range(3):
            for harness in (first, second):
                await harness.settle()
            await first.run_pods()
        for name in ("digits-r0-worker-0", "other-r0-server-0"):
            await first.end_pod(name, code=1)
        for _ in range(4):
            for harness in (first, second):
                await harness.settle()
            await first.finish_deleting()
        for harness in (first, second):
            await harness.settle()

        created = [
            (item.body["metadata"]["name"])
            for item in server.requests
            if (item.verb, item.kind) == ("create", "Pod")
        ]
        assert {name for name in created if name.startswith("digits")} == {*FIRST, *SECOND}
        assert first.status()["restarts"] == first.status("other")["restarts"] == 1
        assert first.status("third")["training"]["attempt"] == 0
        pods = first.pods()
        assert len(pods) == 15
        assert sum("-r1-" in name for name in pods) == 10


@asynchronous
async def test_a_job_that_is_deleted_and_applied_again_at_once() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        stored = harness.server.get("ImageNetJob", "digits")
        assert stored is not None
        old = stored["metadata"]["uid"]
        # The garbage collector is slow: the job is gone, its children are still there.
        del harness.server.storage.objects["ImageNetJob", "vision", "digits"]
        await harness.server.announce("DELETED", stored)
        await harness.server.add(job())
        await harness.settle()
        assert "NameConflict" in harness.events()
        for item in [
            *harness.server.all("Pod"),
            *harness.server.all("Service"),
            *harness.server.all("NetworkPolicy"),
        ]:
            assert item["metadata"]["ownerReferences"][0]["uid"] == old
            await harness.server.remove(item["kind"], item["metadata"]["name"])
        await harness.settle()

        assert harness.pods() == FIRST
        new = harness.server.get("ImageNetJob", "digits")
        assert new is not None
        owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in harness.server.all("Pod")}
        assert owners == {new["metadata"]["uid"]} != {old}


@asynchronous
async def test_a_name_that_a_stranger_holds_is_waited_for() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        stranger = {
            "kind": "Job",
            "apiVersion": "batch/v1",
            "metadata": {"name": "digits-index", "namespace": "vision", "uid": "strange"},
            "spec": {},
        }
        await harness.server.add(stranger)
        await harness.server.add(with_images())
        await harness.server.until(lambda: "NameConflict" in harness.events())
        await harness.settle()
        (ready,) = [
            item for item in harness.status()["conditions"] if item["type"] == "DatasetReady"
        ]
        assert ready["reason"] == "NameConflict"
        assert "Job digits-index belongs to another owner" in ready["message"]

        await harness.server.remove("Job", "digits-index")
        harness.operator.loop.enqueue(("vision", "digits"))
        await harness.settle()

        found = harness.server.get("Job", "digits-index")
        assert found is not None
        assert found["metadata"]["uid"] != "strange"


@asynchronous
async def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        await harness.server.change(
            "ImageNetJob",
            "digits",
            lambda item: item["metadata"].update(deletionTimestamp="2026-01-02T03:04:05Z"),
        )
        await harness.settle()
        before = len(harness.server.writes())
        await harness.end_pod("digits-r0-worker-0", code=1)
        await harness.settle()

        assert len(harness.server.writes()) == before


@asynchronous
async def test_a_job_of_another_manager_is_left_alone() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(job(run_policy={"managedBy": "example.com/other"}))
        await harness.server.add(
            job("broken", run_policy={"managedBy": "example.com/other", "x": 1})
        )
        await harness.settle()

        assert harness.server.writes() == []


@asynchronous
async def test_a_full_quota_is_told_once_and_tried_again() -> None:
    async with cluster_of_one() as harness:
        full = Refusal(403, "Forbidden", "exceeded quota: pods")
        harness.server.refuse(full, creates_a_pod, times=2)
        await harness.server.add(job())
        await harness.server.until(lambda: "ApiServerRefused" in harness.events())
        await harness.server.until(lambda: harness.status().get("training"))
        await harness.settle()

        assert harness.events().count("ApiServerRefused") == 1


@asynchronous
async def test_a_status_that_was_overtaken_is_decided_again() -> None:
    async with cluster_of_one() as harness:
        overtaken = Refusal(409, "Conflict", "the object has been modified")
        harness.server.refuse(overtaken, writes_status, times=3)
        await harness.server.add(job())
        await harness.server.until(lambda: "training" in harness.status())
        await harness.settle()

        assert harness.pods() == FIRST
        assert harness.status()["training"]["attempt"] == 0


@asynchronous
async def test_watches_that_break_are_taken_up_again() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        for bad_day in (harness.server.drop_watches, harness.server.expire):
            await bad_day()
        await harness.end_pods()
        await harness.server.until(lambda: harness.status()["phase"] == "Succeeded")

        assert list(harness.operator.troubles()) == []
