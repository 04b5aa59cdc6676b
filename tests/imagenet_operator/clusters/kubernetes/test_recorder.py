"""Events that repeat: one object with a count, updated once a minute."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.reconcile.types import Event
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.job_table import JOBS

JOB = JOBS["defaults"]
Record = Callable[..., object]


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[FakeApiServer, Recorder, Callable[[float], None]]]:
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def let_pass(seconds: float) -> None:
        nonlocal time
        time += timedelta(seconds=seconds)

    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        yield server, Recorder(client, lambda: time), let_pass


def refused(series: str = "quota", message: str = "exceeded quota") -> Event:
    return Event("Warning", "ApiServerRefused", message, series)


def counts(server: FakeApiServer) -> list[int]:
    return [item["count"] for item in server.all("Event")]


@asynchronous
async def test_events_of_a_series_are_one_object() -> None:
    async with recording() as (server, recorder, let_pass):
        for number in range(5):
            recorder.record(JOB, refused(message=f"exceeded quota: {number}"))
            let_pass(61)
            await recorder.flush()
        (event,) = server.all("Event")
        assert (event["count"], event["message"]) == (5, "exceeded quota: 4")
        assert event["firstTimestamp"] == "2026-01-02T03:04:05Z"
        assert event["lastTimestamp"] == "2026-01-02T03:08:09Z"


@asynchronous
async def test_a_series_is_updated_once_a_minute() -> None:
    async with recording() as (server, recorder, let_pass):
        for _ in range(60):
            recorder.record(JOB, refused())
            let_pass(2)
        await recorder.flush()
        assert server.counts() == {("create", "Event"): 1, ("patch", "Event"): 1}
        assert counts(server) == [31]


@asynchronous
async def test_other_series_and_events_are_objects_of_their_own() -> None:
    async with recording() as (server, recorder, _):
        for event in (refused(), refused("webhook"), Event("Normal", "Running", "all run")):
            recorder.record(JOB, event)
        recorder.record(JOB, Event("Normal", "Running", "all run"))
        await recorder.flush()
        assert counts(server) == [1, 1, 1, 1]


@asynchronous
async def test_a_series_whose_object_has_expired_gets_a_new_one() -> None:
    async with recording() as (server, recorder, let_pass):
        recorder.record(JOB, refused())
        await recorder.flush()
        (event,) = server.all("Event")
        await server.remove("Event", event["metadata"]["name"])
        let_pass(7200)
        recorder.record(JOB, refused())
        await recorder.flush()
        assert counts(server) == [2]
