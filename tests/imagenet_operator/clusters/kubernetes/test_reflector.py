"""A reflector on bad days: its cache ends up the same as the collection, whatever happens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import PAGE, Client
from imagenet_operator.clusters.kubernetes.cluster import MANAGED, job_of_child
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_operator.clusters.kubernetes.reflector import Reflector
from imagenet_operator.manifests import labels
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
from support.fake_api_server import FakeApiServer

Manifest = dict[str, Any]


class Followed:
    """A cache of pods, and the jobs that its changes enqueued."""

    def __init__(self, client: Client, namespace: str | None = None) -> None:
        self.enqueued: list[JobKey] = []
        self.cache = Cache(
            objects.POD,
            job_of_child,
            objects.project_pod,
            lambda key, debounce: self.enqueued.append(key),
        )
        self.reflector = Reflector(
            client, objects.POD, self.cache, namespace=namespace, selector=MANAGED
        )

    def names(self) -> list[str]:
        return sorted(item.manifest()["metadata"]["name"] for item in self.cache.all())

    async def until(self, version: int) -> None:
        """Wait until everything is heard up to a version."""
        await until(lambda: self.reflector.version >= version)


@contextlib.asynccontextmanager
async def following(server: FakeApiServer, namespace: str | None = None) -> AsyncIterator[Followed]:
    async with Client(Connection(server.url)) as client:
        followed = Followed(client, namespace)
        task = asyncio.create_task(followed.reflector.run())
        try:
            yield followed
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def pod(name: str, namespace: str = "vision", managed: bool = True) -> Manifest:
    marks = {labels.MANAGED_BY: "imagenet-operator", labels.JOB_NAME: "digits"} if managed else {}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "labels": marks},
        "spec": {"containers": [{"name": "main"}]},
    }


@asynchronous
async def test_it_lists_in_pages_and_then_watches() -> None:
    async with FakeApiServer() as server:
        for number in range(2 * PAGE + 1):
            await server.add(pod(f"p{number:03}"))
        await server.add(pod("other", managed=False))
        async with following(server) as followed:
            await followed.reflector.synced.wait()
            assert len(followed.cache) == 2 * PAGE + 1
            await server.add(pod("new"))
            await server.remove("Pod", "p000")
            await followed.until(server.version)

            assert len(followed.cache) == 2 * PAGE + 1
            assert followed.names()[0] == "new"
            assert server.counts()["list", "Pod"] == 3


@asynchronous
async def test_bookmarks_move_it_on() -> None:
    async with FakeApiServer() as server, following(server) as followed:
        await followed.reflector.synced.wait()
        await server.add(pod("other", managed=False))
        await server.bookmark()

        await followed.until(server.version)


@asynchronous
async def test_a_watch_that_is_cut_is_taken_up_where_it_was() -> None:
    async with FakeApiServer() as server, following(server) as followed:
        await server.add(pod("a"))
        await followed.until(server.version)
        await server.drop_watches()
        await server.add(pod("b"))
        await followed.until(server.version)

        assert followed.names() == ["a", "b"]
        assert server.counts()["list", "Pod"] == 1


@asynchronous
async def test_what_happened_before_a_gap_is_listed() -> None:
    async with FakeApiServer() as server, following(server) as followed:
        for name in ("gone", "stays"):
            await server.add(pod(name))
        await followed.until(server.version)
        followed.enqueued.clear()
        await server.drop_watches()
        await server.remove("Pod", "gone")
        await server.add(pod("new"))
        await server.expire()
        await followed.until(server.version)

        assert followed.names() == ["new", "stays"]
        assert len(followed.enqueued) >= 2
        assert server.counts()["list", "Pod"] == 2


@pytest.mark.parametrize("code", [410, 500])
@asynchronous
async def test_an_error_in_the_stream_leads_to_a_new_list(code: int) -> None:
    async with FakeApiServer() as server, following(server) as followed:
        await server.add(pod("a"))
        await followed.until(server.version)
        await server.fail_a_watch({"kind": "Status", "code": code, "message": "no more"})
        await until(lambda: server.counts()["list", "Pod"] == 2)
        await server.add(pod("b"))
        await followed.until(server.version)

        assert followed.names() == ["a", "b"]


@asynchronous
async def test_refusals_are_outlived_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with FakeApiServer() as server:
        server.refuse(Refusal(500, "InternalError", "etcd has no leader"), times=4)
        async with following(server) as followed:
            await followed.reflector.synced.wait()

    lines = [record.message for record in caplog.records if "watch of" in record.message]
    assert len(lines) == 2
    assert "etcd has no leader" in lines[0]
    assert lines[1] == "watch of pods: works again"


@asynchronous
async def test_one_namespace_is_followed_alone() -> None:
    async with FakeApiServer() as server, following(server, "vision") as followed:
        await server.add(pod("a"))
        await server.add(pod("b", namespace="elsewhere"))
        await server.bookmark()
        await followed.until(server.version)

        assert followed.names() == ["a"]
