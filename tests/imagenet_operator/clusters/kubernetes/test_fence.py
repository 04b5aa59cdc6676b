"""Until when requests may be sent, and have to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import pytest

from imagenet_operator.clusters.kubernetes import client as clients
from imagenet_operator.clusters.kubernetes.client import (
    NO_LEASE,
    TIMES,
    Answer,
    ApiError,
    Client,
    Fence,
    LeaseTimes,
)
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import EVENT, JOB
from support.api_requests import Request
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import job

SHORT = LeaseTimes(duration=0.75, renew_deadline=0.5, retry_period=0.1)


class Time:
    """A clock that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clients, "time", made)
    return made


def test_the_times_are_those_of_client_go() -> None:
    assert (TIMES.duration, TIMES.renew_deadline, TIMES.retry_period) == (15, 10, 2)


@pytest.mark.parametrize(
    ("age", "left"), [(0.0, 13.0), (2.0, 11.0), (9.9, 3.1), (10.0, 0.0), (60.0, 0.0)]
)
def test_a_request_ends_before_the_lease_may_expire(time: Time, age: float, left: float) -> None:
    fence = Fence()
    fence.extend(time.now)
    time.now += age
    assert fence.seconds_left() == pytest.approx(left)
    assert age + fence.seconds_left() < TIMES.duration or not left


def test_nothing_passes_before_the_first_renewal_and_after_the_end(time: Time) -> None:
    fence = Fence()
    assert fence.seconds_left() == 0
    fence.extend(time.now)
    fence.close()
    assert fence.seconds_left() == 0


@asynchronous
async def test_a_request_without_an_answer_may_still_be_carried_out_for_its_time(
    time: Time,
) -> None:
    async def unanswered() -> Answer:
        return Answer(0, error=TimeoutError())

    fence = Fence()
    assert await fence.settle(60)
    await fence.follow(unanswered, time.now + 5)
    await fence.follow(unanswered, time.now + 3)
    time.now += 4
    assert not await fence.settle(60)
    time.now += 1
    assert await fence.settle(60)


@asynchronous
async def test_a_request_whose_task_is_cancelled_before_it_begins_is_not_sent() -> None:
    sent = []

    async def answered() -> Answer:
        sent.append("request")
        return Answer(200)

    before = asyncio.all_tasks()
    sending = asyncio.create_task(Fence().follow(answered, monotonic() + 5))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - before - {sending}:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert sent == []


@asynccontextmanager
async def fenced(fence: Fence) -> AsyncIterator[tuple[FakeApiServer, Client]]:
    async with FakeApiServer() as server, Client(Connection(server.url), fence) as client:
        await server.add(job())
        yield server, client


PATH = JOB.path("vision", "digits")


@asynchronous
async def test_no_verb_that_changes_something_is_sent_without_the_lease() -> None:
    async with fenced(Fence()) as (server, client):
        before = len(server.requests)
        for change in (
            client.create(EVENT.path("vision"), {"metadata": {"name": "e"}}),
            client.replace(f"{PATH}/status", {}),
            client.merge(PATH, {}),
            client.delete(PATH, {}),
        ):
            with pytest.raises(ApiError, match="does not hold the lease") as caught:
                await change
            assert caught.value.reason == NO_LEASE
        assert len(server.requests) == before
        assert (await client.get(PATH))["kind"] == "ImageNetJob"


@asynchronous
async def test_a_request_is_cut_off_before_the_lease_expires(time: Time) -> None:
    fence = Fence(SHORT)
    loop = asyncio.get_running_loop()
    async with fenced(fence) as (server, client):

        async def endless(asked: Request) -> None:
            if asked.verb == "create":
                await asyncio.sleep(60)

        server.faults.append(endless)
        began = loop.time()
        fence.extend(time.now)
        with pytest.raises(ApiError) as caught:
            await client.create(EVENT.path("vision"), {"metadata": {"name": "e"}})
        assert caught.value.reason == "Unreachable"
        assert loop.time() - began >= SHORT.quiet


@asynchronous
async def test_the_api_server_gets_the_same_limit(time: Time) -> None:
    fence = Fence()
    async with fenced(fence) as (server, client):
        fence.extend(time.now)
        await client.create(EVENT.path("vision"), {"metadata": {"name": "e"}})
        (limit,) = [asked.timeout for asked in server.requests if asked.kind == "Event"]
        # It has the form of Go's durations.
        assert limit == "13000ms"


@dataclass
class Cancelled:
    """A create that its sender waits for no more, while the API server has not answered it."""

    fence: Fence
    answer: asyncio.Event
    server: FakeApiServer


@asynccontextmanager
async def cancelled() -> AsyncIterator[Cancelled]:
    fence, came, answer = Fence(), asyncio.Event(), asyncio.Event()

    async def slow(asked: Request) -> None:
        if asked.verb == "create":
            came.set()
            await answer.wait()

    async with fenced(fence) as (server, client):
        fence.extend(monotonic())
        server.faults.append(slow)
        event = {"metadata": {"name": "e", "namespace": "vision"}}
        creating = asyncio.create_task(client.create(EVENT.path("vision"), event))
        await came.wait()
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
        assert creating.cancelled()
        yield Cancelled(fence, answer, server)
        answer.set()


@asynchronous
async def test_a_request_that_was_cancelled_is_still_answered() -> None:
    async with cancelled() as made:
        settling = asyncio.create_task(made.fence.settle(60))
        made.answer.set()
        assert await settling
        assert made.server.get("Event", "e", "vision") is not None


@asynchronous
async def test_a_cancelled_request_whose_answer_does_not_come_counts_as_unanswered() -> None:
    async with cancelled() as made:
        assert not await made.fence.settle(0)
