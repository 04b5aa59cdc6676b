"""The limits of a scrape: members that answer whatever they like cost little, and no other member.

The longest block of the loop is measured in CPU time, which a busy machine does not change. What
bounds it is asserted too: the bytes that are read in one turn of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from imagenet_operator.clusters import sampler
from imagenet_operator.clusters.local.machine import claim_addresses
from imagenet_operator.clusters.sampler import MAX_CONNECTIONS, Target, scrape
from imagenet_operator.clusters.untrusted_http import PIECE_BYTES
from imagenet_operator.reconcile.sample import Asked
from imagenet_operator.reconcile.scrape import Scrape, ScrapeReader
from support.asynchronous import asynchronous
from support.hostile_members import hostile_members

WORKER = Asked("worker", 0)
GOOD = Scrape(
    "worker",
    0,
    {"imagenet_train_images_total": 100.0, "imagenet_train_images_per_second": 50.0},
)


def at(port: int, host: str = "127.0.0.1") -> Target:
    return Target(host, port, WORKER)


async def scraped(member: Target, timeout: float = 60.0) -> Scrape | str | None:
    found = await scrape({"a": member}, timeout)
    return found.heard.get("a") or found.left_out.get("a")


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("good", GOOD),
        ("redirect", "redirected"),
        ("endless", "more than 64 KiB"),
        ("one_line", "more than 64 KiB"),
        ("crumbs", "more than 64 KiB"),
        ("compressed", "compressed"),
        ("heads", None),
        ("provisional", None),
        ("chunked", GOOD),
    ],
)
@asynchronous
async def test_only_a_good_answer_of_the_member_itself_counts(
    kind: str, result: Scrape | str | None
) -> None:
    async with hostile_members() as ports:
        assert await scraped(at(ports[kind])) == result


@pytest.mark.parametrize("kind", ["drip", "silence"])
@asynchronous
async def test_an_answer_that_does_not_come_in_time_is_none(kind: str) -> None:
    async with hostile_members() as ports:
        assert await scraped(at(ports[kind]), 0.1) is None


@asynchronous
async def test_a_member_without_a_server_is_none() -> None:
    with contextlib.closing(claim_addresses()) as block:
        assert await scraped(at(9090, block.of("nobody"))) is None


@asynchronous
async def test_members_whose_turn_does_not_come_are_left_out() -> None:
    """The time of a job is over before all of its silent members had their time."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=1024)) as silent:
        port = silent.getsockname()[1]
        members = {f"p{index}": at(port) for index in range(400)}
        began = time.monotonic()
        found = await scrape(members, 0.1)
        took = time.monotonic() - began

    assert found.heard == {}
    assert set(found.left_out.values()) == {"no time left"}
    # 32 at a time, each for a fifth of the job's time.
    assert len(found.left_out) >= 400 - MAX_CONNECTIONS * (sampler.TIMEOUTS_OF_JOB + 1)
    assert took < 10


@contextlib.asynccontextmanager
async def blocks() -> AsyncIterator[list[float]]:
    """Measure the CPU seconds of each turn of the loop, until the block ends."""
    measured: list[float] = []
    # What other tests have left in memory is not collected meanwhile.
    gc.collect()
    gc.freeze()

    async def measure() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            measured.append(now - before)
            before = now

    task = asyncio.create_task(measure())
    try:
        yield measured
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gc.unfreeze()


def a_thousand_members(ports: Mapping[str, int]) -> dict[str, Target]:
    """Return addresses by pod, KIND-INDEX, of members of every kind of answer."""
    kinds = [
        *("good", "redirect", "endless", "one_line", "crumbs", "compressed", "heads"),
        *("provisional", "chunked"),
    ]
    return {
        f"{kind}-{index}": at(ports[kind], f"127.0.{index // 250 + 1}.{index % 250 + 1}")
        for index in range(1000)
        for kind in ["drip" if index % 100 == 0 else kinds[index % len(kinds)]]
    }


@pytest.mark.costly
@asynchronous
async def test_a_thousand_members_of_all_kinds_do_not_block_the_loop(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    read: Counter[int] = Counter()
    feed = ScrapeReader.feed

    async with hostile_members() as ports, blocks() as measured:

        def counted(self: ScrapeReader, piece: bytes) -> None:
            assert len(piece) <= PIECE_BYTES
            read[len(measured)] += len(piece)
            feed(self, piece)

        monkeypatch.setattr(ScrapeReader, "feed", counted)
        monkeypatch.setattr(sampler, "TIMEOUTS_OF_JOB", 60)
        members = a_thousand_members(ports)
        tracemalloc.start()
        try:
            # Long enough for a good answer on a busy machine, and few members take all of it.
            found = await scrape(members, 10.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert set(found.heard) == {pod for pod in members if pod.startswith(("good-", "chunked-"))}
    assert set(found.left_out.values()) == {"redirected", "compressed", "more than 64 KiB"}
    # If the machine is busy, the time of crumbs may end before they exceed the length.
    assert {pod.partition("-")[0] for pod in found.silent} >= {"drip", "heads", "provisional"}
    # At most one piece of each connection between two turns of another task.
    assert max(read.values()) <= MAX_CONNECTIONS * PIECE_BYTES
    assert peak < 50 << 20
    # If a hypervisor stops the machine, that may count as CPU time of a turn. Whatever blocks the
    # loop in each answer of a kind does so a hundred times.
    assert sum(seconds >= 0.1 for seconds in measured) < 10
    record_property("longest_block_ms", round(max(measured) * 1000, 1))
    record_property("peak_memory_mb", round(peak / 1e6, 1))
    print(f"longest block {max(measured) * 1000:.1f} ms, memory {peak / 1e6:.1f} MB")
