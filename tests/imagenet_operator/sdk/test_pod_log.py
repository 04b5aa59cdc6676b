"""The log of one pod: quiet programs, streams that end early, and lines in any order."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import POD
from imagenet_operator.sdk import pod_log
from imagenet_operator.sdk.interface import LogLine, Outage
from support.asynchronous import asynchronous, until
from support.client_jobs import add_pod, end_pod, pod_status, user_cluster

NAME = "digits-r0-worker-0"
A, B, C, D = (f"2026-01-01T00:00:0{second}.000000001Z" for second in range(4))


class Streams:
    """An API server whose pod runs for some requests: each has a stream of its log."""

    def __init__(self, *streams: bytes) -> None:
        self.streams = list(streams)
        self.since: list[str | None] = []

    async def get(self, path: str) -> Any:
        del path
        return {"status": pod_status("running" if len(self.streams) > 1 else "terminated")}

    async def lines(self, path: str, silence: float, **query: str) -> AsyncIterator[bytes]:
        del path, silence
        self.since.append(query.get("sinceTime"))
        for line in self.streams.pop(0).splitlines(keepends=True):
            yield line


async def read(streams: Streams, poll_seconds: float = 0.0) -> list[LogLine]:
    client: Any = streams
    reader = pod_log.Reader(client, "pod", NAME, Outage(poll_seconds, lambda _: False))
    return [line async for line in reader.lines(follow=True)]


@asynchronous
async def test_a_program_that_writes_nothing_for_long_is_no_outage() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_log, "_SILENCE_SECONDS", 0.05)
        async with user_cluster() as server, Client(Connection(server.url)) as client:
            await add_pod(server, NAME)
            # The first failure that counts ends this.
            outage = Outage(0.0, lambda _: True, seconds=0.0)
            reader = pod_log.Reader(client, POD.path("vision", NAME), NAME, outage)

            async def texts() -> list[str]:
                return [line.text async for line in reader.lines(follow=True)]

            reading = asyncio.create_task(texts())
            asked = server.requests
            await until(
                lambda: reading.done() or sum(item.subresource == "log" for item in asked) > 2, 0.01
            )
            # From here on, a silence would be that of a busy machine.
            patch.setattr(pod_log, "_SILENCE_SECONDS", 60.0)
            server.timed_logs[NAME] = [(A, "late")]
            await end_pod(server, NAME)
            assert await reading == ["late"]


@asynchronous
async def test_a_stream_that_ends_before_its_program_is_not_asked_for_at_once() -> None:
    began = time.monotonic()
    assert await read(Streams(b"", b"", b"", b""), poll_seconds=0.05) == []
    assert time.monotonic() - began >= 3 * 0.05


@pytest.mark.parametrize(
    "streams",
    [
        (f"{A} a\n{C} b\n", f"{A} a\n{C} b\n{B} c\n{D} d\n"),
        (f"{A} a\n{C} b\n{B} c\n", f"{A} a\n{C} b\n{B} c\n{D} d\n"),
        (f"{A} a\n{A} a\n{B} b", f"{A} a\n{A} a\n{B} b\n{A} a\n"),
    ],
)
def test_lines_out_of_order_are_neither_lost_nor_doubled(streams: tuple[str, str]) -> None:
    @asynchronous
    async def story() -> None:
        served = Streams(*(stream.encode() for stream in streams))
        found = [line.text for line in await read(served)]
        assert found == [line.split(" ")[1] for line in streams[1].splitlines()]
        assert served.since[0] is None
        assert served.since[1] in ("2025-12-31T23:59:55Z", "2025-12-31T23:59:57Z")

    story()


@asynchronous
async def test_a_line_without_a_time_has_that_of_the_line_before() -> None:
    message = "unable to retrieve container logs for containerd://5a"
    found = await read(Streams(f"{message}\n{A} a\n".encode(), f"{A} a\n{message}\n".encode()))
    assert [line.text for line in found] == [message, "a", message]
    assert [line.time is None for line in found] == [True, False, False]
    assert found[1].time == found[2].time
