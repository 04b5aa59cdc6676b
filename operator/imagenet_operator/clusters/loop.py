"""The loop: takes jobs from the work queue and reconciles several of them at a time.

Both clusters enqueue jobs here when something has changed. Kubernetes reconciles many jobs
(`kubernetes.reconciler`), a local run one (`local.runner`).
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from imagenet_operator.clusters.interface import AlreadyExists, ClusterError, Conflict, JobKey
from imagenet_operator.clusters.queue import WorkQueue

LOGGER = logging.getLogger(__name__)

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


class Loop:
    """Works the queue off, while `run` runs.

    Args:
        reconcile: Reconciles a job; returns when to do so again, None for never.
        measure: Called after each reconcile with its result (success, again or error) and its
            duration in seconds.

    Attributes:
        queue: The jobs to reconcile.
        debounce_seconds: How long a debounced job waits.
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
        """Reconcile a job soon.

        Args:
            key: The job.
            low_priority: Whether others go before it.
        """
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
        """Whether a reconcile hangs."""
        oldest = min(self._began.values(), default=None)
        return oldest is not None and time.monotonic() - oldest > STUCK_SECONDS

    async def run(self) -> None:
        """Work until cancelled, which also cancels the reconciles under way."""
        try:
            while True:
                self._changed.clear()
                self._start()
                await self._wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self) -> None:
        while len(self._began) < MAX_CONCURRENT_RECONCILES:
            key = self._next()
            if key is None:
                return
            self._end_debounce(key)
            self._began[key] = time.monotonic()
            task = asyncio.create_task(self._work(key), name=f"reconcile {'/'.join(key)}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> JobKey | None:
        now = time.monotonic()
        key = self.queue.get(now, low_priority=False)
        if key is None and len(self._low_priority) < MAX_CONCURRENT_LOW_PRIORITY:
            key = self.queue.get(now)
            if key is not None:
                self._low_priority.add(key)
        return key

    async def _wait(self) -> None:
        """Sleep until a job can be reconciled."""
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
