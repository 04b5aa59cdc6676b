"""The check that kopf reports every change of the jobs, and the health checks that use it."""

import time
from typing import Any

import pytest

from imagenet_operator import handlers
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import health, objects
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_operator.clusters.kubernetes.watch_liveness import WatchLiveness
from imagenet_operator.main import News
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
from support.fake_api_server import FakeApiServer
from support.operator_harness import (
    QUICK,
    claim,
    cluster_of,
    cluster_of_one,
    job,
    node,
    running,
    started,
)

Manifest = dict[str, Any]
KEY = ("vision", "digits")


def jobs() -> Cache:
    return Cache(
        objects.JOB,
        lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]),
        objects.project_job,
        lambda key, debounce: None,
    )


@asynchronous
async def test_a_job_that_kopf_has_told_of_is_all_right() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        cache = jobs()
        liveness = WatchLiveness(client, cache, [None], lambda key: None)
        for _ in range(3):
            cache.put(await server.add(job()) if not len(cache) else server.all("ImageNetJob")[0])
            await liveness.check()

        assert liveness.missed == frozenset()
        assert liveness.heard_at is not None


@pytest.mark.parametrize("namespaces", [[None], ["elsewhere", "vision"]])
@asynchronous
async def test_a_job_that_kopf_does_not_tell_of_in_time_is_missed(
    namespaces: list[str | None],
) -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        cache = jobs()
        liveness = WatchLiveness(client, cache, namespaces, lambda key: None)
        stored = await server.add(job())
        await liveness.check()
        assert liveness.missed == frozenset()
        await liveness.check()
        assert liveness.missed == {KEY}

        cache.put(stored)
        await liveness.check()
        assert liveness.missed == frozenset()


@asynchronous
async def test_a_job_that_is_gone_is_forgotten() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        cache, forgotten = jobs(), list[JobKey]()
        cache.put(await server.add(job()))
        await server.remove("ImageNetJob", "digits")
        await WatchLiveness(client, cache, [None], forgotten.append).check()

        assert forgotten == [KEY]
        assert len(cache) == 0


@asynchronous
async def test_more_jobs_than_a_page_holds() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        cache, forgotten = jobs(), list[JobKey]()
        for number in range(501):
            cache.put(await server.add(job(f"j{number}")))
        await WatchLiveness(client, cache, [None], forgotten.append).check()

        assert forgotten == []
        assert len(cache) == 501


@asynchronous
async def test_troubles_are_named() -> None:
    async with cluster_of_one() as harness:
        await harness.settle()
        operator = harness.operator
        assert list(operator.troubles()) == []

        operator.watch_liveness.missed = frozenset({KEY})
        assert any("imagenetjobs is dead" in item for item in operator.troubles())
        operator.watch_liveness.missed = frozenset()
        operator.watch_liveness.heard_at = time.monotonic() - health.LONGEST_SILENCE - 1
        assert list(operator.troubles()) == ["imagenetjobs cannot be listed"]


@asynchronous
async def test_a_watch_that_is_silent_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster_of_one() as harness:
        await harness.settle()
        monkeypatch.setattr(health, "LONGEST_SILENCE", -1.0)

        found = list(harness.operator.troubles())
        assert {"the watch of pods is dead", "the watch of nodes is dead"} <= set(found)


@asynchronous
async def test_nodes_that_may_not_be_seen_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster_of() as server:
        not_yours = Refusal(403, "Forbidden", "nodes are not the operator's")
        server.refuse(not_yours, lambda asked: asked.kind == "Node")
        async with running(server) as harness:
            await server.add(job())
            await server.until(lambda: len(harness.pods()) == 5)
            monkeypatch.setattr(health, "LONGEST_SILENCE", -1.0)

            assert "the watch of nodes is dead" not in list(harness.operator.troubles())


GONE = Refusal(403, "Forbidden", 'the operator may not list in the namespace "gone"')
BOTH = {"namespaces": ["vision", "gone"], **QUICK}


def deny(server: FakeApiServer, namespace: str = "gone") -> None:
    """Delete a namespace as far as the operator sees it: with the Role that it has there."""
    server.refuse(GONE, lambda asked: asked.namespace == namespace and asked.kind != "Lease")


def in_the_other(name: str) -> Manifest:
    found = job(name)
    found["metadata"]["namespace"] = "gone"
    return found


@pytest.mark.parametrize("is_deleted_before", [True, False])
@asynchronous
async def test_a_deleted_namespace_does_not_stop_the_others(
    is_deleted_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(node("n1")) as server:
        if is_deleted_before:
            deny(server)
        async with running(server, BOTH) as harness:
            operator = harness.operator
            if not is_deleted_before:
                await harness.settle()
                deny(server)
            await server.add(job())
            await server.until(lambda: len(harness.pods()) == 5)
            await operator.watch_liveness.check()
            await server.drop_watches()
            monkeypatch.setattr(health, "LONGEST_SILENCE", -1.0)
            dead = [item for item in operator.troubles() if "in gone" in item]
            monkeypatch.undo()

            assert dead == []
            assert [*operator.pending(), *operator.troubles()] == []


@asynchronous
async def test_the_jobs_of_a_namespace_that_stays_denied_are_forgotten() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        cache, forgotten = jobs(), list[JobKey]()
        cache.put(await server.add(in_the_other("digits")))
        cache.put(await server.add(job()))
        liveness = WatchLiveness(client, cache, ["vision", "gone"], forgotten.append)
        deny(server)
        await liveness.check()
        assert forgotten == [], "a Role may be replaced"
        assert liveness.denied == {"gone"}
        await liveness.check()
        assert forgotten == [("gone", "digits")]
        assert cache.keys() == [KEY]

        server.faults.clear()
        await liveness.check()
        await liveness.check()
        assert liveness.denied == frozenset()
        assert liveness.missed == {("gone", "digits")}


@pytest.mark.parametrize("namespaces", [[None], ["gone"], ["gone", "vision"]])
@asynchronous
async def test_an_operator_that_may_list_nowhere_is_not_heard(
    namespaces: list[str | None],
) -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        server.refuse(GONE, lambda asked: True)
        liveness = WatchLiveness(client, jobs(), namespaces, lambda key: None)
        with pytest.raises(ApiError):
            await liveness.check()
        assert liveness.heard_at is None
        assert liveness.denied == frozenset()


@asynchronous
async def test_a_namespace_with_a_part_of_the_rights_is_a_trouble() -> None:
    """Its caches would be old: nothing is decided by them."""
    async with cluster_of(node("n1")) as server:
        server.refuse(GONE, lambda asked: asked.namespace == "gone" and asked.kind == "Pod")
        async with running(server, BOTH) as harness:
            await server.add(in_the_other("digits"))
            await server.add(job())
            await server.until(lambda: len(harness.pods()) == 5)

            assert "pods in gone are not listed yet" in list(harness.operator.pending())
            assert server.get("Pod", "digits-r0-worker-0", "gone") is None


WATCHES_OF_JOBS = Refusal(503, "ServiceUnavailable")


@asynchronous
async def test_a_finished_job_that_was_deleted_in_a_gap_of_the_watch_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "RETRY_PAUSES", handlers.Pauses(0.01))
    async with cluster_of_one() as harness:
        server, jobs = harness.server, harness.operator.cluster.jobs
        await started(harness)
        await harness.end_pods()
        await harness.settle()
        await harness.finish_deleting()
        await harness.settle()
        refused = server.refuse(
            WATCHES_OF_JOBS, lambda asked: (asked.verb, asked.kind) == ("watch", "ImageNetJob")
        )
        await server.drop_watches()
        await server.until(lambda: refused)
        await server.remove("ImageNetJob", "digits")
        await server.expire()
        server.faults.clear()
        await server.add(job("next"))
        await until(lambda: jobs.get("vision", "next") is not None)

        assert jobs.get(*KEY) is not None, "kopf reports it: the check need not find it"
        await harness.operator.watch_liveness.check()
        assert jobs.get(*KEY) is None


@asynchronous
async def test_a_namespace_that_comes_back_is_watched_again_however_long_it_was_denied(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handlers, "RETRY_PAUSES", handlers.Pauses(0.01))
    async with cluster_of(node("n1"), claim(namespace="gone")) as server:
        refused = server.refuse(
            GONE, lambda asked: asked.namespace == "gone" and asked.kind == "ImageNetJob"
        )
        async with running(server, BOTH) as harness:
            await server.until(lambda: len(refused) > 100)
            await server.add(job())
            await server.until(lambda: len(harness.pods()) == 5)
            server.faults.clear()
            await server.add(in_the_other("digits"))
            await server.until(lambda: len(harness.pods()) == 10)
            await harness.settle()

            await harness.operator.watch_liveness.check()
            assert [*harness.operator.pending(), *harness.operator.troubles()] == []
    is_news = News()
    said = [item for item in caplog.records if item.name.startswith("kopf.") and is_news(item)]
    assert len([item for item in said if "/namespaces/gone/" in item.getMessage()]) == 1
