"""The loop: passes at the same time, never two over one job, and no failure that stops it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from imagenet_operator.clusters import loop as loops
from imagenet_operator.clusters.interface import AlreadyExists, Conflict, JobKey
from imagenet_operator.clusters.kubernetes.client import ApiError
from imagenet_operator.clusters.loop import (
    FIRST_DELAY,
    LONGEST_DELAY,
    MAX_CONCURRENT_LOW_PRIORITY,
    MAX_CONCURRENT_RECONCILES,
    Loop,
    WorkQueue,
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
async def test_the_end_cuts_what_is_publishing() -> None:
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


KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """What has been wished for is worked on, once at a time, and nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[str] = WorkQueue()
        self.now = 0.0
        self.wished: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: set[str] = set()

    @rule(key=KEYS, low_priority=st.booleans())
    def add(self, key: str, low_priority: bool) -> None:
        self.queue.add(key, low_priority=low_priority)
        self.wished.add(key)

    @rule(key=KEYS, delay=st.floats(0, 10))
    def add_later(self, key: str, delay: float) -> None:
        due = self.now + delay
        self.queue.add_at(key, due)
        self.due[key] = min(due, self.due.get(key, due))

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        for key, due in list(self.due.items()):
            if due <= self.now:
                del self.due[key]
                self.wished.add(key)
        taken = self.queue.get(self.now)
        free = self.wished - self.working
        if taken is None:
            assert not free
            return
        assert taken in free
        self.wished.discard(taken)
        self.due.pop(taken, None)
        self.working.add(taken)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), failed=st.booleans())
    def finish(self, data: st.DataObject, failed: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        if failed:
            delay = self.queue.failed(key, self.now)
            assert FIRST_DELAY <= delay <= LONGEST_DELAY
            due = self.now + delay
            self.due[key] = min(due, self.due.get(key, due))
        else:
            self.queue.succeeded(key)
        self.queue.done(key)
        self.working.discard(key)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.due.pop(key, None)

    @invariant()
    def it_knows_when_to_wake(self) -> None:
        assert self.queue.next_due() == min(self.due.values(), default=None)
        assert len(self.queue) == len(self.wished)


TestQueueMachine = QueueMachine.TestCase


def test_keys_come_in_the_order_of_their_wishes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "cab":
        queue.add(key)
    queue.add("c")

    assert [queue.get(0) for _ in range(4)] == ["c", "a", "b", None]


def test_whoever_was_only_listed_lets_others_go_first() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("listed", low_priority=True)
    queue.add("other", low_priority=True)
    queue.add("changed")
    queue.add("other")

    assert [queue.get(0) for _ in range(3)] == ["changed", "other", "listed"]


def test_a_wish_during_the_work_is_kept_until_its_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.get(0)
    queue.add("a")
    queue.add("a")

    assert queue.get(0) is None
    queue.done("a")
    assert queue.get(0) == "a"
    queue.done("a")
    assert queue.get(0) is None


def test_failures_in_a_row_wait_longer_and_longer() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = []
    for _ in range(12):
        queue.add("a")
        queue.get(0)
        delays.append(queue.failed("a", 0))
        queue.done("a")

    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LONGEST_DELAY
    queue.succeeded("a")
    assert queue.failed("a", 0) == FIRST_DELAY


def test_looking_fulfils_the_wish_for_later() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", 5)
    queue.add("a")

    assert queue.get(0) == "a"
    assert queue.next_due() is None
