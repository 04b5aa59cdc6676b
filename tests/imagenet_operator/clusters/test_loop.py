"""The loop: passes at the same time, never two over one job, and no failure that stops it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from imagenet_operator.clusters import loop as loops
from imagenet_operator.clusters.interface import AlreadyExists, Conflict, JobKey
from imagenet_operator.clusters.kubernetes.client import ApiError
from imagenet_operator.clusters.loop import (
    MAX_CONCURRENT_LOW_PRIORITY,
    MAX_CONCURRENT_RECONCILES,
    Loop,
)
from support.asynchronous import asynchronous, until

KEY = ("vision", "digits")


@contextlib.asynccontextmanager
async def looping(
    reconcile: Callable[[JobKey], Awaitable[timedelta | None]],
) -> AsyncIterator[Loop]:
    loop = Loop(reconcile)
    task = asyncio.create_task(loop.run())
    try:
        yield loop
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynchronous
async def test_jobs_are_worked_on_together_but_each_by_itself() -> None:
    running: Counter[JobKey] = Counter()
    most: Counter[str] = Counter()
    go_on = asyncio.Event()

    async def reconcile(key: JobKey) -> None:
        running[key] += 1
        most["of one"] = max(most["of one"], running[key])
        most["of all"] = max(most["of all"], running.total())
        await go_on.wait()
        running[key] -= 1

    async with looping(reconcile) as loop:
        for _ in range(3):
            for number in range(MAX_CONCURRENT_RECONCILES + 5):
                loop.enqueue(("vision", str(number)))
            await asyncio.sleep(0)
        await until(lambda: running.total() == MAX_CONCURRENT_RECONCILES)
        go_on.set()
        await until(lambda: loop.is_idle)

    assert most == {"of one": 1, "of all": MAX_CONCURRENT_RECONCILES}


@asynchronous
async def test_jobs_that_were_only_listed_leave_room_for_others() -> None:
    running: list[JobKey] = []
    go_on = asyncio.Event()

    async def reconcile(key: JobKey) -> None:
        running.append(key)
        await go_on.wait()

    async with looping(reconcile) as loop:
        for number in range(MAX_CONCURRENT_RECONCILES):
            loop.enqueue(("vision", str(number)), low_priority=True)
        await until(lambda: len(running) == MAX_CONCURRENT_LOW_PRIORITY)
        loop.enqueue(KEY)
        await until(lambda: KEY in running)
        assert len(running) == MAX_CONCURRENT_LOW_PRIORITY + 1
        go_on.set()
        await until(lambda: loop.is_idle)

    assert len(running) == MAX_CONCURRENT_RECONCILES + 1


@asynchronous
async def test_a_pass_says_when_the_next_one_is_due() -> None:
    seen = 0

    async def reconcile(key: JobKey) -> timedelta | None:
        nonlocal seen
        seen += 1
        return timedelta(milliseconds=1) if seen < 3 else None

    async with looping(reconcile) as loop:
        loop.enqueue(KEY)
        await until(lambda: seen == 3)
        await until(lambda: loop.is_idle)

        assert loop.queue.next_due() is None


@contextlib.asynccontextmanager
async def recording(debounce_seconds: float) -> AsyncIterator[tuple[Loop, list[JobKey]]]:
    """A loop, and the jobs that it has looked at."""
    seen: list[JobKey] = []

    async def reconcile(key: JobKey) -> None:
        seen.append(key)

    async with looping(reconcile) as loop:
        loop.debounce_seconds = debounce_seconds
        yield loop, seen


@asynchronous
async def test_what_may_wait_is_looked_at_when_its_time_has_come() -> None:
    async with recording(debounce_seconds=0) as (loop, seen):
        for count in (1, 2):
            loop.enqueue_debounced(KEY)
            assert not loop.is_idle
            await until(lambda: loop.is_idle)
            assert seen == [KEY] * count


@asynchronous
async def test_what_is_urgent_does_not_wait_and_one_look_is_for_both() -> None:
    async with recording(debounce_seconds=3600) as (loop, seen):
        for _ in range(3):
            loop.enqueue_debounced(KEY)
            await asyncio.sleep(0)
        assert seen == []
        assert not loop.is_idle

        loop.enqueue(KEY)
        await until(lambda: loop.is_idle)
        assert seen == [KEY]


@asynchronous
async def test_those_to_whom_more_happens_go_before_what_may_wait() -> None:
    seen: list[JobKey] = []
    go_on = asyncio.Event()

    async def reconcile(key: JobKey) -> None:
        seen.append(key)
        await go_on.wait()

    async with looping(reconcile) as loop:
        loop.debounce_seconds = 0
        for number in range(MAX_CONCURRENT_RECONCILES):
            loop.enqueue(("vision", f"first-{number}"))
        await until(lambda: len(seen) == MAX_CONCURRENT_RECONCILES)
        loop.enqueue_debounced(KEY)
        await until(lambda: len(loop.queue) == 1)
        for number in range(MAX_CONCURRENT_RECONCILES):
            loop.enqueue(("vision", f"then-{number}"))
        go_on.set()
        await until(lambda: loop.is_idle)

    assert seen[-1] == KEY


@asynchronous
async def test_a_job_that_is_gone_is_not_waited_for() -> None:
    async with recording(debounce_seconds=3600) as (loop, _):
        loop.enqueue_debounced(KEY)
        loop.forget(KEY)
        assert loop.is_idle


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ValueError("a bug"), 1),
        (ApiError("GET /x", 500, "InternalError", "etcd"), 1),
        (Conflict("PUT /x: modified"), 0),
        (AlreadyExists("Pod", "a"), 0),
    ],
)
@asynchronous
async def test_a_pass_that_fails_is_made_again(
    error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [error]

    async def reconcile(key: JobKey) -> None:
        if errors:
            raise errors.pop()

    async with looping(reconcile) as loop:
        loop.enqueue(KEY)
        await until(lambda: not errors)
        assert loop.queue.next_due() is not None
        await until(lambda: loop.is_idle and loop.queue.next_due() is None)

    assert len([item for item in caplog.records if item.levelname != "DEBUG"]) == lines


@asynchronous
async def test_the_end_cuts_what_is_under_way() -> None:
    begun = cut = False

    async def reconcile(key: JobKey) -> None:
        nonlocal begun, cut
        begun = True
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut = True
            raise

    async with looping(reconcile) as loop:
        loop.enqueue(KEY)
        await until(lambda: begun)

    assert cut


@asynchronous
async def test_a_pass_that_hangs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reconcile(key: JobKey) -> None:
        await asyncio.Event().wait()

    async with looping(reconcile) as loop:
        assert not loop.is_stuck
        loop.enqueue(KEY)
        await until(lambda: len(loop.queue) == 0)
        assert not loop.is_stuck
        monkeypatch.setattr(loops, "STUCK_SECONDS", -1.0)
        assert loop.is_stuck
