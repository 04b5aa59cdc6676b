"""The operator as a whole, kopf included, against an API server that can have bad days."""

import asyncio
import copy
from typing import Any

from imagenet_operator.manifests import labels
from support.api_requests import Refusal, Request, creates_a_pod, writes_status
from support.asynchronous import asynchronous, until
from support.operator_harness import Harness, claim, cluster_of, cluster_of_one, job, node, running

Manifest = dict[str, Any]
FIRST = [
    f"digits-r0-{member}"
    for member in ("scheduler-0", "server-0", "server-1", "worker-0", "worker-1")
]
SECOND = [name.replace("-r0-", "-r1-") for name in FIRST]


def being_deleted(item: Manifest) -> None:
    item["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"


def with_images() -> Manifest:
    """A job whose dataset has to be prepared first."""
    whole = job()
    whole["spec"]["dataset"] = {
        "source": {"volume": {"claimName": "raw", "path": "a.tar"}},
        "volume": {"size": "1Gi"},
    }
    return whole


async def started(harness: Harness, **parts: Any) -> None:
    """Bring a job to where all its pods run."""
    await harness.server.add(job(**parts))
    await harness.settle()
    await harness.run_pods()
    await harness.settle()
    assert harness.status()["phase"] == "Running"


@asynchronous
async def test_a_job_goes_its_way() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        assert harness.pods() == FIRST
        await harness.end_pods()
        await harness.settle()

        assert harness.status()["phase"] == "Succeeded"
        assert harness.events() == ["AttemptStarted", "DatasetReady", "Running", "Succeeded"]
        assert harness.server.all("Service") == []


@asynchronous
async def test_pods_that_start_one_after_another_are_one_write_and_a_failure_is_told_at_once() -> (
    None
):
    async with cluster_of_one() as harness:
        await harness.server.add(job())
        await harness.settle()
        before = len(harness.server.writes())
        harness.operator.loop.debounce_seconds = 3600

        await harness.run_pods()
        await harness.heard()
        assert harness.server.writes()[before:] == []
        harness.operator.loop.enqueue(("vision", "digits"))
        await harness.settle()
        writes = [item.kind for item in harness.server.writes()[before:]]
        assert writes.count("ImageNetJob") == 1
        assert harness.status()["phase"] == "Running"

        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        assert harness.status()["training"]["outcome"]["reason"] == "MemberFailed"


@asynchronous
async def test_nothing_is_written_to_a_job_but_its_status() -> None:
    async with cluster_of_one() as harness:
        await started(harness)

        found = harness.server.get("ImageNetJob", "digits")
        assert found is not None
        assert found["metadata"].keys() & {"finalizers", "annotations"} == set()
        written = {
            (item.verb, item.subresource)
            for item in harness.server.writes()
            if item.kind == "ImageNetJob"
        }
        assert written == {("update", "status")}


@asynchronous
async def test_the_preparation_comes_first() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        await harness.server.add(with_images())
        await harness.settle()

        assert [item["metadata"]["name"] for item in harness.server.all("Job")] == ["digits-index"]
        assert harness.pods() == []
        assert harness.status()["phase"] == "Preparing"
        kinds_made = [item.kind for item in harness.server.writes() if item.verb == "create"]
        assert kinds_made.index("PersistentVolumeClaim") < kinds_made.index("Job")


@asynchronous
async def test_a_lost_member_restarts_the_attempt() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        await harness.finish_deleting()
        await harness.settle()

        assert harness.pods() == SECOND
        assert harness.status()["restarts"] == 1
        assert "Restarting" in harness.events()


@asynchronous
async def test_an_idle_job_costs_no_requests() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        before = len(harness.server.requests)
        # An hour of heartbeats, and of pods whose conditions are touched without a change.
        for _ in range(12):
            harness.operator.loop.enqueue(("vision", "digits"))
            await harness.server.change(
                "Pod", FIRST[0], lambda item: item["metadata"].update(annotations={"seen": "again"})
            )
            await harness.settle()

        assert harness.server.requests[before:] == []


@asynchronous
async def test_a_status_that_somebody_else_wrote_starts_no_pass() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        before = len(harness.server.writes())
        await harness.server.change(
            "ImageNetJob",
            "digits",
            lambda item: item["status"]["training"].update(imagesPerSecond=7),
        )
        await harness.settle()

        assert len(harness.server.writes()) == before


@asynchronous
async def test_an_operator_that_comes_back_leaves_running_jobs_alone() -> None:
    async with cluster_of(node("n1")) as server:
        async with running(server) as harness:
            await started(harness)
        before = len(server.writes())
        async with running(server) as harness:
            await harness.settle()
            assert len(server.writes()) == before
            await harness.end_pods()
            await harness.settle()
            assert harness.status()["phase"] == "Succeeded"


@asynchronous
async def test_it_catches_up_with_what_it_missed() -> None:
    async with cluster_of(node("n1")) as server:
        async with running(server) as harness:
            await started(harness)
        await harness.end_pod("digits-r0-server-0", code=1)
        await server.add(job("other"))
        async with running(server) as harness:
            await harness.settle()
            assert harness.status()["restarts"] == 1
            assert harness.status("other")["phase"] == "Starting"


@asynchronous
async def test_no_pass_is_made_before_all_children_are_listed() -> None:
    """Pods are listed last, and slowly: a job whose pods are not known would seem to have none."""
    async with cluster_of(node("n1")) as server:
        async with running(server) as harness:
            await started(harness)
        may_list, before = asyncio.Event(), len(server.writes())

        async def slow(asked: Request) -> None:
            if (asked.verb, asked.kind) == ("list", "Pod"):
                await may_list.wait()

        server.faults.append(slow)
        async with running(server) as harness:
            jobs = harness.operator.cluster.jobs
            await until(lambda: len(jobs) > 0)
            assert any("not listed" in item for item in harness.operator.pending())
            assert len(server.writes()) == before
            may_list.set()
            await harness.settle()
            assert len(server.writes()) == before
            assert list(harness.operator.pending()) == []


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


@asynchronous
async def test_a_member_on_a_node_that_is_gone_counts_as_gone() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        await harness.server.change(
            "Node", "n1", lambda item: item["status"]["conditions"][0].update(status="Unknown"), ""
        )
        for name in harness.pods():
            await harness.server.change(
                "Pod",
                name,
                lambda item: item["metadata"].update(deletionTimestamp="2026-01-02T03:04:05Z"),
            )
        await harness.settle()

        assert harness.status()["disruptions"] == 1
        # Nothing comes back from there, so the next attempt is not held up.
        assert set(SECOND) <= set(harness.pods())


@asynchronous
async def test_a_gang_waits_for_room_and_only_one_gets_it() -> None:
    """Two gangs of five pods, and eight places for pods."""
    wait = {"schedulingPolicy": {"gang": "Wait"}}
    async with cluster_of(node("n1", pods=8)) as server, running(server) as harness:
        await server.add(job("one", run_policy=wait))
        await server.add(job("two", run_policy=wait))
        await harness.settle()

        gated = [
            item["metadata"]["labels"][labels.JOB_NAME]
            for item in server.all("Pod")
            if item["spec"].get("schedulingGates")
        ]
        assert len(server.all("Pod")) == 10
        assert len(gated) == 5
        assert len(set(gated)) == 1


@asynchronous
async def test_a_job_whose_time_is_over_is_deleted_with_its_children() -> None:
    async with cluster_of_one() as harness:
        await started(harness, run_policy={"ttlSecondsAfterFinished": 0, "cleanPodPolicy": "None"})
        await harness.end_pods()
        await harness.server.until(lambda: harness.server.get("ImageNetJob", "digits") is None)
        await harness.settle()

        assert harness.pods() == []
        assert len(harness.operator.cluster.jobs) == 0


@asynchronous
async def test_only_the_namespaces_that_are_listed_are_watched() -> None:
    async with cluster_of_one(
        {"namespaces": ["elsewhere"], "sampler": {"enabled": False}},
        claims=[claim(), claim(namespace="elsewhere")],
    ) as harness:
        await harness.server.add(job())
        moved = copy.deepcopy(job())
        moved["metadata"]["namespace"] = "elsewhere"
        await harness.server.add(moved)
        await harness.server.until(lambda: len(harness.server.all("Pod")) == 5)

        assert harness.server.get("Pod", FIRST[0], "elsewhere") is not None
        asked = {item.namespace for item in harness.server.requests if item.kind != "Node"}
        assert asked == {"elsewhere"}
