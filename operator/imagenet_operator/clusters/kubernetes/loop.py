"""The loop: takes jobs from the work queue and has passes made over them, several at a time."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from imagenet_operator.clusters.errors import NameTaken
from imagenet_operator.clusters.kubernetes import metrics
from imagenet_operator.clusters.kubernetes.cache import JobKey
from imagenet_operator.clusters.kubernetes.client import ApiError
from imagenet_operator.clusters.kubernetes.cluster import CONFLICT
from imagenet_operator.clusters.kubernetes.haste import TOGETHER_SECONDS
from imagenet_operator.clusters.kubernetes.queue import WorkQueue

LOGGER = logging.getLogger(__name__)

PASSES_AT_ONCE: Final = 16
"""Jobs that are worked on at a time."""

PATIENT_AT_ONCE: Final = 4
"""How many of them may be jobs that can wait. After a restart those are all jobs at once, and the
events of others have to get through between them."""

_SPREAD: Final = 0.1
"""By how much a long wait is shortened at random: jobs that began together drift apart."""

_LONG_WAIT: Final = 60.0

STUCK_SECONDS: Final = 1800.0
"""A pass that takes longer hangs: every request in it is bounded, and so is the line before it.

Thousands of pods of 10 s each, as a dead webhook has it, are no hang: to end the operator for them
would cut off the creation of all of them, again and again."""


class Loop:
    """Works the queue off, while `run` runs.

    Args:
        look: Makes a pass over a job; returns when to look again, None for never.

    Attributes:
        queue: The jobs that somebody wants looked at.
        together_seconds: How long a job waits at most that is to be looked at soon.
    """

    def __init__(self, look: Callable[[JobKey], Awaitable[timedelta | None]]) -> None:
        self.queue: WorkQueue[JobKey] = WorkQueue()
        self.together_seconds = TOGETHER_SECONDS
        self._look = look
        self._soon: dict[JobKey, asyncio.TimerHandle] = {}
        self._news = asyncio.Event()
        self._began: dict[JobKey, float] = {}
        self._patient: set[JobKey] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def wish(self, key: JobKey, patient: bool = False) -> None:
        """Have a job looked at.

        Args:
            key: Which.
            patient: Whether others may go before it.
        """
        self.queue.add(key, patient=patient)
        self._news.set()

    def wish_soon(self, key: JobKey) -> None:
        """Have a job looked at once for all that is heard of it within a moment.

        Others go before it even then: when hundreds are made at once, whose pods run already may
        be said after all have theirs.
        """
        if key not in self._soon:
            timers = asyncio.get_running_loop()
            self._soon[key] = timers.call_later(self.together_seconds, self._moment_over, key)

    def _moment_over(self, key: JobKey) -> None:
        del self._soon[key]
        self.wish(key, patient=True)

    def forget(self, key: JobKey) -> None:
        """Drop every later wish for a job that is gone."""
        self._wait_no_longer(key)
        self.queue.forget(key)

    def _wait_no_longer(self, key: JobKey) -> None:
        if key in self._soon:
            self._soon.pop(key).cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no job waits for a pass or has one now."""
        return not self._began and not self._soon and not len(self.queue)

    @property
    def is_stuck(self) -> bool:
        """Whether a pass hangs."""
        oldest = min(self._began.values(), default=None)
        return oldest is not None and time.monotonic() - oldest > STUCK_SECONDS

    async def run(self) -> None:
        """Work until cancelled; passes under way are then cut."""
        try:
            while True:
                self._news.clear()
                self._start()
                await self._wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self) -> None:
        while len(self._began) < PASSES_AT_ONCE:
            key = self._take()
            if key is None:
                return
            self._wait_no_longer(key)
            self._began[key] = time.monotonic()
            task = asyncio.create_task(self._work(key), name=f"pass over {'/'.join(key)}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> JobKey | None:
        now = time.monotonic()
        key = self.queue.take(now, patient=False)
        if key is None and len(self._patient) < PATIENT_AT_ONCE:
            key = self.queue.take(now)
            if key is not None:
                self._patient.add(key)
        return key

    async def _wait(self) -> None:
        """Sleep until there is a wish that can be worked on."""
        due = self.queue.next_due() if len(self._began) < PASSES_AT_ONCE else None
        timer = None
        if due is not None:
            delay = max(0.0, due - time.monotonic())
            timer = asyncio.get_running_loop().call_later(delay, self._news.set)
        try:
            await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _work(self, key: JobKey) -> None:
        began = self._began[key]
        result = "error"
        try:
            again = await self._look(key)
            result = "success"
            self.queue.succeeded(key)
            if again is not None:
                self.queue.add_at(key, time.monotonic() + _spread(again.total_seconds()))
        except NameTaken as error:
            result = "again"
            self.queue.failed(key, time.monotonic())
            LOGGER.debug("%s/%s: %s", *key, error)
        except ApiError as error:
            result = "again" if error.code == CONFLICT else "error"
            delay = self.queue.failed(key, time.monotonic())
            level = logging.DEBUG if error.code == CONFLICT else logging.WARNING
            LOGGER.log(level, "%s/%s: %s; again in %.1f s", *key, error, delay)
        except Exception:
            delay = self.queue.failed(key, time.monotonic())
            LOGGER.exception("%s/%s: the pass failed; again in %.1f s", *key, delay)
        finally:
            del self._began[key]
            self._patient.discard(key)
            self.queue.done(key)
            self._news.set()
            metrics.PASSES.labels(result).inc()
            metrics.PASS_SECONDS.observe(time.monotonic() - began)


def _spread(seconds: float) -> float:
    if seconds < _LONG_WAIT:
        return seconds
    return seconds * random.uniform(1 - _SPREAD, 1)
