"""The event loop of the schedules: its clock, and its processes that stop."""

import asyncio
import os
import time

import pytest

from support import virtual_time
from support.virtual_time import Process, VirtualTimeLoop


def test_a_year_passes_at_once() -> None:
    async def story(loop: VirtualTimeLoop) -> float:
        await asyncio.sleep(365 * 86400)
        return time.monotonic() - loop.time()

    began = time.monotonic()
    assert virtual_time.run(story) == 0
    assert time.monotonic() - began < 60


def test_what_waits_for_almost_nothing_does_not_stop_the_clock() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        end = 1000.0
        await asyncio.sleep(end - 1e-9)
        while loop.time() < end:
            await asyncio.sleep(end - loop.time())

    virtual_time.run(story)


def test_a_paused_process_goes_on_later() -> None:
    said: list[tuple[str, float]] = []

    async def story(loop: VirtualTimeLoop) -> None:
        async def clock(name: str) -> None:
            for _ in range(3):
                await asyncio.sleep(1)
                said.append((name, loop.time()))

        process = Process(loop)
        inside, outside = process.start(clock("inside")), loop.create_task(clock("outside"))
        await asyncio.sleep(1.5)
        process.pause()
        await outside
        await asyncio.sleep(10)
        process.resume()
        await inside

    virtual_time.run(story)

    assert [at for name, at in said if name == "outside"] == pytest.approx([1, 2, 3])
    assert [at for name, at in said if name == "inside"] == pytest.approx([1, 13, 14], abs=1e-3)


def test_a_paused_process_reads_later_what_it_was_sent() -> None:
    async def story(loop: VirtualTimeLoop) -> tuple[bytes, float]:
        def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            loop.call_later(2, writer.write, b"hello\n")

        path = f"\0virtual-time-{os.getpid()}"
        server = await asyncio.start_unix_server(answer, path)

        async def read() -> tuple[bytes, float]:
            reader, writer = await asyncio.open_unix_connection(path)
            line = await reader.readline()
            writer.close()
            return line, loop.time()

        process = Process(loop)
        reading = process.start(read())
        await asyncio.sleep(1)
        process.pause()
        await asyncio.sleep(9)
        process.resume()
        found = await reading
        server.close()
        return found

    line, at = virtual_time.run(story)

    assert line == b"hello\n"
    assert at == pytest.approx(10.0)
