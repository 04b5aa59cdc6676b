"""Creates that fail for a moment are sent again within a reconcile, so that a gang stays whole."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import client as clients
from imagenet_operator.clusters.kubernetes.client import Answer, ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import POD
from support.api_requests import Refusal, Request, creates_a_pod
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import cluster_of_one, job

Manifest = dict[str, Any]
FAILURES = [
    Refusal(500, "InternalError", "etcdserver: leader changed"),
    Refusal(502, "", "bad gateway"),
    Refusal(503, "ServiceUnavailable", "shutting down"),
    Refusal(504, "Timeout", "the request did not complete"),
    Refusal(429, "TooManyRequests", "too many requests", retry_after=0),
]


def of_pods(count: int) -> Manifest:
    """Return a job of so many pods: a scheduler, a server and the workers."""
    workers = count - 2
    whole = job(training={"batchSize": workers, "workers": {"replicas": workers}})
    whole["spec"]["training"]["strategy"]["parameterServer"]["servers"]["replicas"] = 1
    return whole


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.01)


@asynchronous
async def test_a_thousand_pods_with_fifteen_failed_creates_are_one_attempt() -> None:
    failures = itertools.cycle(FAILURES)
    unlucky = {f"digits-r0-worker-{index}" for index in range(33, 998, 66)}
    assert len(unlucky) == 15

    async def fault(asked: Request) -> None:
        if creates_a_pod(asked) and asked.body["metadata"]["name"] in unlucky:
            unlucky.remove(asked.body["metadata"]["name"])
            raise next(failures).again()

    async with cluster_of_one() as harness:
        harness.server.faults.append(fault)
        await harness.server.add(of_pods(1000))
        await harness.settle()

        assert not unlucky
        assert harness.status()["training"]["attempt"] == 0
        assert "outcome" not in harness.status()["training"]
        assert len(harness.pods()) == 1000
        assert harness.server.counts()["create", "Pod"] == 1015
        assert ("delete", "Pod") not in harness.server.counts()
        assert "ApiServerRefused" not in harness.events()


@asynchronous
async def test_a_pod_whose_answer_was_lost_is_not_made_twice() -> None:
    lost: list[str] = []

    async def fault(asked: Request) -> None:
        if creates_a_pod(asked) and asked.body["metadata"]["name"] not in lost:
            lost.append(asked.body["metadata"]["name"])
            await harness.server.add({**asked.body, "apiVersion": "v1", "kind": "Pod"})
            raise Refusal(504, "Timeout", "the request did not complete")

    async with cluster_of_one() as harness:
        harness.server.faults.append(fault)
        await harness.server.add(job())
        await harness.settle()

        assert sorted(lost) == harness.pods()
        assert len(lost) == 5
        assert harness.status()["training"]["attempt"] == 0
        assert "outcome" not in harness.status()["training"]


@asynchronous
async def test_creates_survive_a_connection_that_is_cut() -> None:
    cut: list[str] = []

    async def fault(asked: Request) -> None:
        if creates_a_pod(asked) and not cut:
            cut.append(asked.body["metadata"]["name"])
            # aiohttp closes the connection of a handler that is cancelled.
            raise asyncio.CancelledError

    async with cluster_of_one() as harness:
        harness.server.faults.append(fault)
        await harness.server.add(job())
        await harness.settle()

        assert len(cut) == 1
        assert len(harness.pods()) == 5
        assert "outcome" not in harness.status()["training"]
        assert harness.server.counts()["create", "Pod"] == 6


def creates(client: Client, count: int) -> list[asyncio.Task[Manifest]]:
    return [
        asyncio.create_task(client.create(POD.path("vision"), pod(f"p{index}")))
        for index in range(count)
    ]


def pod(name: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "vision"}, "spec": {}}


@asynchronous
async def test_an_api_server_that_fails_every_create_is_soon_left_alone() -> None:
    """With a webhook that is down, each create would otherwise wait for its time several times."""
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        fails = server.refuse(FAILURES[0])
        answers = await asyncio.gather(*creates(client, 400), return_exceptions=True)
        assert all(isinstance(answer, ApiError) and answer.code == 500 for answer in answers)
        assert len(fails) == 400 + clients.QUOTA

        server.faults.clear()
        await asyncio.gather(*creates(client, 20))
        fails = server.refuse(FAILURES[0], lambda asked: asked.body["metadata"]["name"] == "late")
        with pytest.raises(ApiError, match="leader changed"):
            await client.create(POD.path("vision"), pod("late"))
        assert len(fails) == 1 + 20 * clients.QUOTA_OF_SUCCESS


@asynchronous
async def test_only_creates_are_sent_again_after_a_failure() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        fails = server.refuse(FAILURES[2])
        with pytest.raises(ApiError, match="shutting down"):
            await client.get(POD.path("vision", "p0"))
        assert len(fails) == 1
        with pytest.raises(ApiError, match="shutting down"):
            await client.create(POD.path("vision"), pod("p0"))
        assert len(fails) == 1 + clients.TRIES


@pytest.mark.parametrize(
    ("code", "header", "sent", "wait"),
    [(503, "3", 1, 3.0), (503, "3600", 1, 10.0), (429, None, 1, 1.0), (429, None, 3, 1.0)],
)
def test_the_api_server_says_how_long_it_is_left_alone(
    code: int, header: str | None, sent: int, wait: float
) -> None:
    assert clients.retry_pause(Answer(code, retry_after=header), sent) == wait


def test_each_failure_of_a_create_is_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.5)
    waits = [clients.retry_pause(Answer(500), sent) for sent in range(1, 8)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
