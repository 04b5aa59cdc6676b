"""The operator as a whole, kopf included, against an API server that can have bad days."""

import asyncio
import copy

from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_operator.configuration import parse
from imagenet_operator.manifests import labels
from support.api_requests import Request
from support.asynchronous import asynchronous, until
from support.operator_harness import (
    FIRST,
    QUICK,
    SECOND,
    Manifest,
    claim,
    cluster_of,
    cluster_of_one,
    job,
    node,
    running,
    started,
    with_images,
)


def being_deleted(item: Manifest) -> None:
    item["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"


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
async def test_it_is_not_ready_before_kopf_watches_the_jobs() -> None:
    """Its own check lists them long before, as when their definition has come back."""
    async with cluster_of(node("n1"), job()) as server:
        may_watch = asyncio.Event()

        async def slow(asked: Request) -> None:
            if (asked.verb, asked.kind) == ("watch", "ImageNetJob"):
                await may_watch.wait()

        server.faults.append(slow)
        async with running(server) as harness:
            await until(lambda: len(list(harness.operator.pending())) == 1)
            assert list(harness.operator.pending()) == ["imagenetjobs are not watched yet"]
            may_watch.set()
            await until(lambda: not list(harness.operator.pending()))
            assert harness.operator.cluster.jobs.get("vision", "digits") is not None


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


def stored(name: str, version: int, status: Manifest) -> Manifest:
    found = job(name)
    found["metadata"] |= {"uid": name, "resourceVersion": str(version), "generation": 1}
    return {**found, "status": status}


def test_a_job_that_was_applied_while_there_was_no_operator_goes_before_those_that_run() -> None:
    operator = Operator(Client(Connection("http://nowhere")), parse(QUICK, "test"))
    started = {"startTime": "2026-01-02T03:04:05Z"}
    operator.job_event(None, stored("runs", 1, started))
    operator.job_event(None, stored("runs-too", 2, started))
    operator.job_event(None, stored("waits", 3, {}))
    operator.begin()

    queue = operator.loop.queue
    assert [queue.get(0.0) for _ in range(3)] == [
        ("vision", "waits"),
        ("vision", "runs"),
        ("vision", "runs-too"),
    ]
