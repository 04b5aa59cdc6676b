"""An API server that is slow or overloaded: no job fails because of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import client as clients
from imagenet_operator.clusters.kubernetes.client import AT_ONCE, Answer, ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import JOB
from support.api_requests import Refusal, Request, creates_a_pod
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import cluster_of_one, job

Manifest = dict[str, Any]
MEMBERS = 64


def large() -> Manifest:
    """A job of more pods than are ever asked for at a time."""
    whole = job(training={"batchSize": 32 * MEMBERS, "workers": {"replicas": MEMBERS}})
    strategy = whole["spec"]["training"]["strategy"]
    strategy["parameterServer"]["servers"]["replicas"] = MEMBERS
    return whole


def slow(seconds: float) -> Callable[[Request], Awaitable[None]]:
    """A webhook whose server is gone, as it affects creates of pods."""

    async def fault(asked: Request) -> None:
        if creates_a_pod(asked):
            await asyncio.sleep(seconds)

    return fault


@asynchronous
async def test_pods_that_wait_for_their_turn_are_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All creates together take longer than one may, and none of them does."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 4.0)
    async with cluster_of_one() as harness:
        harness.server.faults.append(slow(1.0))
        await harness.server.add(large())
        await harness.settle()

        assert harness.status()["training"]["attempt"] == 0
        assert "outcome" not in harness.status()["training"]
        assert len(harness.pods()) == 2 * MEMBERS + 1
        assert ("delete", "Pod") not in harness.server.counts()


@asynchronous
async def test_no_more_requests_are_sent_at_once_than_there_are_connections() -> None:
    under_way, most, go_on = 0, 0, asyncio.Event()

    async def held(asked: Request) -> None:
        nonlocal under_way, most
        del asked
        under_way += 1
        most = max(most, under_way)
        if under_way == AT_ONCE:
            go_on.set()
        await go_on.wait()
        under_way -= 1

    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        await server.add(job())
        server.faults.append(held)
        reads = (client.get(JOB.path("vision", "digits")) for _ in range(2 * AT_ONCE))
        await asyncio.gather(*reads)

        assert most == AT_ONCE


BUSY = Refusal(429, "TooManyRequests", "too many requests", retry_after=0)


@asynchronous
async def test_an_api_server_that_is_busy_is_asked_again() -> None:
    async with cluster_of_one() as harness:
        refused = harness.server.refuse(
            BUSY,
            lambda asked: creates_a_pod(asked) and "worker-1" in asked.body["metadata"]["name"],
            times=2,
        )
        await harness.server.add(job())
        await harness.settle()

        assert len(refused) == 2
        assert harness.status()["training"]["attempt"] == 0
        assert len(harness.pods()) == 5
        assert "ApiServerRefused" not in harness.events()
        assert ("delete", "Pod") not in harness.server.counts()


@asynchronous
async def test_an_api_server_that_stays_busy_is_left_to_the_work_queue() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        refused = server.refuse(BUSY)
        with pytest.raises(ApiError, match="too many requests") as caught:
            await client.get(JOB.path("vision", "digits"))

        assert caught.value.code == 429
        assert len(refused) == clients.TRIES


@pytest.mark.parametrize(
    ("header", "wait"),
    [("3", 3.0), ("0", 0.0), ("3600", clients.LONGEST_PAUSE), (None, 1.0), ("Sunday", 1.0)],
)
def test_how_long_a_busy_api_server_is_left_alone(header: str | None, wait: float) -> None:
    assert clients.retry_pause(Answer(429, retry_after=header), 1) == wait
