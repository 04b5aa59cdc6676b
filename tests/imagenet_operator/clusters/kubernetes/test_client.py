"""Requests to an API server: below a path of a proxy, and in pages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import pytest
from aiohttp import web
from yarl import URL

from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import EVENT, JOB
from imagenet_spec.resource.base import Manifest
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
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


PATH = JOB.path("vision")


@asynccontextmanager
async def jobs(*names: str) -> AsyncIterator[tuple[FakeApiServer, Client]]:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        for name in names:
            await server.add(job(name))
        yield server, client


def names_in(page: Manifest) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def requests_under_way() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == f"a page of {PATH}"]


@asynchronous
async def test_the_next_page_is_asked_for_while_one_is_read() -> None:
    async with jobs("a", "b", "c", "d", "e") as (server, client):
        pages = client.pages(PATH, limit="2")

        first = await anext(pages)
        await until(lambda: len(server.requests) == 2)

        assert names_in(first) == ["a", "b"]
        assert [names_in(page) async for page in pages] == [["c", "d"], ["e"]]
        assert len(server.requests) == 3


@asynchronous
async def test_nothing_goes_on_behind_a_reader_that_leaves() -> None:
    async with jobs("a", "b", "c") as (_, client):
        pages = client.pages(PATH, limit="1")
        await anext(pages)
        assert len(requests_under_way()) == 1

        await pages.aclose()

        assert not requests_under_way()


@asynchronous
async def test_a_page_that_cannot_be_read_ends_the_reading_after_those_before() -> None:
    async with jobs("a", "b", "c") as (server, client):
        gone = Refusal(410, "Expired", "the list has changed too much")
        server.refuse(gone, when=lambda _: len(server.requests) == 2)
        pages = client.pages(PATH, limit="1")

        assert names_in(await anext(pages)) == ["a"]
        with pytest.raises(ApiError, match="changed too much"):
            await anext(pages)
