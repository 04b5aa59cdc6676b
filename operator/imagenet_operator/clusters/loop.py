"""The loop and its work queue: which job is reconciled next, several of them at a time.

Both clusters enqueue jobs here when something has changed. Kubernetes reconciles many jobs
(`kubernetes.reconciler`), a local run one (`local.runner`).

The queue has controller-runtime's semantics. A key is never worked on twice at once. Adding a key
that waits changes nothing; adding one that is being worked on adds it again when that work is done.
Failures back off, per key. Keys of low priority come after all others: jobs that were only listed,
as at the operator's start, and jobs with debounced events alone. The queue neither waits nor reads
a clock, so that every order of events can be tested; the loop does.
"""

import asyncio
import heapq
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Generic, TypeVar

from imagenet_operator.clusters.interface import AlreadyExists, ClusterError, Conflict, JobKey

LOGGER = logging.getLogger(__name__)

Key = TypeVar("Key")

FIRST_DELAY = 0.1
"""Seconds before the first retry; doubled with each further one."""

LONGEST_DELAY = 60.0
"""The longest wait between two retries, in seconds."""

MAX_CONCURRENT_RECONCILES: Final = 16
"""Jobs that are reconciled at a time."""

MAX_CONCURRENT_LOW_PRIORITY: Final = 4
"""How many of them may be of low priority. After a restart of the operator those are all jobs, and
the events of other jobs must not wait for them."""

DEBOUNCE_SECONDS: Final = 0.5
"""How long a pod's news waits for more. Kubernetes' Job controller waits a second."""

_JITTER: Final = 0.1
"""By which share a long wait is shortened at random, so that jobs do not stay in step."""

_LONG_WAIT: Final = 60.0

STUCK_SECONDS: Final = 1800.0
"""A reconcile that takes longer hangs: every request in it is bounded, and so is its queue.

Thousands of creates of 10 s each, as with a dead webhook, are no hang: a restart of the operator
would interrupt them again and again."""


@dataclass
class WorkQueue(Generic[Key]):
    """Keys to work on, now or later."""

    _urgent: deque[Key] = field(default_factory=deque)
    _low_priority: deque[Key] = field(default_factory=deque)
    _waiting: dict[Key, bool] = field(default_factory=dict)
    _working: set[Key] = field(default_factory=set)
    _due: dict[Key, float] = field(default_factory=dict)
    _timers: list[tuple[float, int, Key]] = field(default_factory=list)
    _failures: dict[Key, int] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        """How many keys wait to be worked on now; those that are due later do not count."""
        return len(self._waiting)

    def add(self, key: Key, *, low_priority: bool = False) -> None:
        if key in self._waiting:
            if low_priority or not self._waiting[key]:
                return
        elif key in self._working:
            self._waiting[key] = False
            return
        self._waiting[key] = low_priority
        if key not in self._working:
            (self._low_priority if low_priority else self._urgent).append(key)

    def add_at(self, key: Key, due: float) -> None:
        """Add a key at a time; the earliest of several times counts."""
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._timers, (due, self._count, key))

    def get(self, now: float, *, low_priority: bool = True) -> Key | None:
        """Return the next key, as being worked on; None if there is none.

        This drops every other entry of the key, also one for later.
        """
        while (due := self.next_due()) is not None and due <= now:
            _, _, timed = heapq.heappop(self._timers)
            del self._due[timed]
            self.add(timed)
        for line in (self._urgent, self._low_priority) if low_priority else (self._urgent,):
            while line:
                key = line.popleft()
                if key in self._waiting and key not in self._working:
                    del self._waiting[key]
                    self._due.pop(key, None)
                    self._working.add(key)
                    return key
        return None

    def done(self, key: Key) -> None:
        """Mark the work on a key as ended, successful or not."""
        self._working.discard(key)
        if key in self._waiting:
            self._urgent.append(key)

    def succeeded(self, key: Key) -> None:
        self._failures.pop(key, None)

    def failed(self, key: Key, now: float) -> float:
        """Add a key again after a wait, in seconds, that grows with each failure in a row."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay: float = min(FIRST_DELAY * 2.0 ** min(count, 32), LONGEST_DELAY)
        self.add_at(key, now + delay)
        return delay

    def forget(self, key: Key) -> None:
        """Drop the later entry of a key and its failures: its job is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        while self._timers:
            due, _, key = self._timers[0]
            if self._due.get(key) == due:
                return due
            heapq.heappop(self._timers)
        return None


class Loop:
    """Works the queue off, while `run` runs.

    `reconcile` returns when to reconcile the job again, None for never. `measure` gets the result
    (success, again or error) and the seconds of each reconcile.
    """

    def __init__(
        self,
        reconcile: Callable[[JobKey], Awaitable[timedelta | None]],
        measure: Callable[[str, float], None] = lambda result, seconds: None,
    ) -> None:
        self.queue: WorkQueue[JobKey] = WorkQueue()
        self.debounce_seconds = DEBOUNCE_SECONDS
        self._reconcile = reconcile
        self._measure = measure
        self._debounced: dict[JobKey, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()
        self._began: dict[JobKey, float] = {}
        self._low_priority: set[JobKey] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def enqueue(self, key: JobKey, low_priority: bool = False) -> None:
        """Reconcile a job soon."""
        self.queue.add(key, low_priority=low_priority)
        self._changed.set()

    def enqueue_debounced(self, key: JobKey) -> None:
        """Reconcile a job once for all of its events of a short time, with low priority.

        If hundreds of jobs start at once, the pods of all are created before the first of them are
        reported as running.
        """
        if key not in self._debounced:
            timers = asyncio.get_running_loop()
            self._debounced[key] = timers.call_later(
                self.debounce_seconds, self._debounce_over, key
            )

    def _debounce_over(self, key: JobKey) -> None:
        del self._debounced[key]
        self.enqueue(key, low_priority=True)

    def forget(self, key: JobKey) -> None:
        """Drop the later entries of a job that is gone."""
        self._end_debounce(key)
        self.queue.forget(key)

    def _end_debounce(self, key: JobKey) -> None:
        if key in self._debounced:
            self._debounced.pop(key).cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no job waits or is being reconciled."""
        return not self._began and not self._debounced and not len(self.queue)

    @property
    def is_stuck(self) -> bool:
        oldest = min(self._began.values(), default=None)
        return oldest is not None and time.monotonic() - oldest > STUCK_SECONDS

    async def run(self) -> None:
        """Work until cancelled, which also cancels the reconciles under way."""
        try:
            while True:
                self._changed.clear()
                while len(self._began) < MAX_CONCURRENT_RECONCILES and (key := self._next()):
                    self._end_debounce(key)
                    self._began[key] = time.monotonic()
                    task = asyncio.create_task(self._work(key), name=f"reconcile {'/'.join(key)}")
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await self._wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _next(self) -> JobKey | None:
        now = time.monotonic()
        key = self.queue.get(now, low_priority=False)
        if key is None and len(self._low_priority) < MAX_CONCURRENT_LOW_PRIORITY:
            key = self.queue.get(now)
            if key is not None:
                self._low_priority.add(key)
        return key

    async def _wait(self) -> None:
        due = self.queue.next_due() if len(self._began) < MAX_CONCURRENT_RECONCILES else None
        timer = None
        if due is not None:
            delay = max(0.0, due - time.monotonic())
            timer = asyncio.get_running_loop().call_later(delay, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _work(self, key: JobKey) -> None:
        began = self._began[key]
        result = "error"
        try:
            requeue_after = await self._reconcile(key)
            result = "success"
            self.queue.succeeded(key)
            if requeue_after is not None:
                seconds = requeue_after.total_seconds()
                if seconds >= _LONG_WAIT:
                    seconds *= random.uniform(1 - _JITTER, 1)
                self.queue.add_at(key, time.monotonic() + seconds)
        except (AlreadyExists, Conflict) as error:
            result = "again"
            delay = self.queue.failed(key, time.monotonic())
            LOGGER.debug("%s/%s: %s; again in %.1f s", *key, error, delay)
        except ClusterError as error:
            delay = self.queue.failed(key, time.monotonic())
            LOGGER.warning("%s/%s: %s; again in %.1f s", *key, error, delay)
        except Exception:
            delay = self.queue.failed(key, time.monotonic())
            LOGGER.exception("%s/%s: the reconcile failed; again in %.1f s", *key, delay)
        finally:
            del self._began[key]
            self._low_priority.discard(key)
            self.queue.done(key)
            self._changed.set()
            self._measure(result, time.monotonic() - began)
