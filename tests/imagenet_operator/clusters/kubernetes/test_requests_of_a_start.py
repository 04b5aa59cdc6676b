"""The requests that a job takes until its pods exist and its start is recorded."""

from __future__ import annotations

from collections import Counter

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import NamedClaims
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_operator.configuration import parse
from support.api_requests import writes_status
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import QUICK, Harness, claim, cluster_of_one, job

CLAIM = claim()["metadata"]["name"]
READ_CLAIM = ("get", "PersistentVolumeClaim")


async def requests_of(harness: Harness, *names: str) -> Counter[tuple[str, str]]:
    """Return the requests for new jobs, without those that all jobs share (lists and watches).

    Of the writes of a status the first of each job counts: news of its pods may cause another.
    """
    began = len(harness.server.requests)
    for name in names:
        await harness.server.add(job(name))
    await harness.settle()
    made = [item for item in harness.server.requests[began:] if item.verb not in _SHARED]
    later = Counter((item.verb, item.kind, item.name) for item in made if writes_status(item))
    counted = Counter(("try" if item.dry_run else item.verb, item.kind) for item in made)
    counted["update", "ImageNetJob"] -= sum(times - 1 for times in later.values())
    return counted


_SHARED = ("list", "watch")


@asynchronous
async def test_a_job_of_five_pods_takes_fifteen_requests() -> None:
    async with cluster_of_one() as harness:
        await harness.settle()

        assert await requests_of(harness, "digits") == {
            READ_CLAIM: 1,
            ("get", "ImageNetJob"): 1,
            ("try", "Pod"): 3,
            ("create", "Service"): 1,
            ("create", "NetworkPolicy"): 1,
            ("create", "Pod"): 5,
            ("update", "ImageNetJob"): 1,
            ("create", "Event"): 2,
        }


@asynchronous
async def test_the_next_job_on_the_same_claim_does_not_read_it_again() -> None:
    async with cluster_of_one() as harness:
        await requests_of(harness, "digits")

        made = await requests_of(harness, *(f"next-{number}" for number in range(5)))

        assert READ_CLAIM not in made
        assert made["get", "ImageNetJob"] == 5
        assert made.total() == 5 * 14


def claims_of(client: Client, time: list[float]) -> NamedClaims:
    """Return the claims as an operator reads them, by a clock that a test sets."""
    operator = Operator(client, parse(QUICK, "test"))
    cache = operator.cluster.children["PersistentVolumeClaim"]
    return NamedClaims(client, cache, lambda: time[0])


async def read(claims: NamedClaims) -> list[str]:
    return [item["metadata"]["name"] for item in await claims.read("vision", [CLAIM, CLAIM])]


@asynchronous
async def test_a_claim_is_read_again_when_its_time_is_over() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        await server.add(claim())
        time = [100.0]
        claims = claims_of(client, time)
        assert await read(claims) == await read(claims) == [CLAIM]
        assert server.counts()[READ_CLAIM] == 1

        time[0] += objects.MAX_CLAIM_AGE_SECONDS
        await server.remove("PersistentVolumeClaim", CLAIM)
        assert await read(claims) == []
        assert server.counts()[READ_CLAIM] == 2


@asynchronous
async def test_neither_an_absence_nor_a_claim_that_is_deleted_is_remembered() -> None:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        claims = claims_of(client, [0.0])
        assert await read(claims) == []
        leaving = claim()
        leaving["metadata"] |= {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["a/b"]}
        await server.add(leaving)
        assert await read(claims) == await read(claims) == [CLAIM]
        assert server.counts()[READ_CLAIM] == 3
