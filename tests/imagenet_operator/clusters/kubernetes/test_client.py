"""Requests to an API server that has not a whole address to itself."""

from typing import Self

import pytest
from aiohttp import web
from yarl import URL

from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import EVENT, JOB
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import claim, job, node, running

PREFIX = "/k8s/clusters/c-1"


class BehindAProxy(FakeApiServer):
    """An API server below a path, as Rancher's proxy gives access to one."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.url += PREFIX
        return self

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.path.startswith(f"{PREFIX}/"):
            return web.Response(status=404, text=f"no {request.path}")
        below = URL(request.raw_path.removeprefix(PREFIX), encoded=True)
        return await super()._serve(request.clone(rel_url=below))


@pytest.mark.parametrize("end", ["", "/"])
@asynchronous
async def test_an_address_may_have_a_path(end: str) -> None:
    async with BehindAProxy() as server, Client(Connection(server.url + end)) as client:
        await server.add(job())
        await client.create(
            EVENT.path("vision"), {"metadata": {"name": "a", "namespace": "vision"}}
        )
        (page,) = [page async for page in client.pages(JOB.path())]

        assert server.get("Event", "a") is not None
        assert [item["metadata"]["name"] for item in page["items"]] == ["digits"]
        assert (await client.get(JOB.path("vision", "digits")))["kind"] == "ImageNetJob"


@asynchronous
async def test_what_happens_behind_a_path_is_heard() -> None:
    async with BehindAProxy() as server, Client(Connection(server.url)) as client:
        events = client.watch(JOB.path("vision"), 30.0, resourceVersion=str(server.version))
        await server.add(job())

        kind, found = await anext(events)

        assert (kind, found["metadata"]["name"]) == ("ADDED", "digits")
        await events.aclose()


@asynchronous
async def test_an_operator_works_behind_a_path() -> None:
    async with BehindAProxy() as server:
        await server.add(claim())
        await server.add(node("n1"))
        async with running(server) as harness:
            await server.add(job())
            await harness.settle()

            assert len(harness.pods()) == 5
