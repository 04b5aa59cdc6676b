"""What the pages show, read once for all viewers, and only while somebody looks.

A page asks for its reading. An old one is read again, by one task however many ask, and at most
`_AT_ONCE` readings run at a time. A reading that takes long is repeated more seldom, so that
reading takes a bounded share of the time. If a place does not answer, the pages keep the last
values, and say since when.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from imagenet_operator.page.contents import Contents
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.sdk.background import loop
from imagenet_operator.sdk.errors import NotFound
from imagenet_operator.sdk.interface import JobEvent, Jobs, LogLine, Selection
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.events import Event, Run, from_line, runs_of
from imagenet_spec.resource import ImageNetJob

LOG_LINES: Final = 200
JOBS_MAXIMUM: Final = 64
"""Jobs of which a reading is kept; the one that was looked at longest ago goes first."""

_AT_ONCE: Final = 4
_FRESH_SECONDS: Final = 2.0
_REST: Final = 5.0
"""A reading rests for so many times of what it took."""
_LONGEST_SECONDS: Final = 30.0
_WAIT_SECONDS: Final = 1.0
"""How long a page waits for a new reading while it has an old one."""

_LOGGER: Final = logging.getLogger(__name__)

Value = TypeVar("Value")


@dataclass(frozen=True)
class Trouble:
    """Why the newest reading failed, and since when."""

    since: datetime
    message: str
    is_gone: bool = False


@dataclass(frozen=True)
class Reading(Generic[Value]):
    """What was read last; `number` changes with the value and the trouble."""

    value: Value | None = None
    at: datetime | None = None
    number: int = 0
    trouble: Trouble | None = None


@dataclass(frozen=True)
class ListedJob:
    """A job of the list; `standstill` says why it will not go on by itself."""

    job: ImageNetJob
    standstill: str = ""


@dataclass(frozen=True)
class JobView:
    """All that the page of one job shows.

    `absent` has why `events` or `log` cannot be read, by these names.
    """

    contents: Contents
    standstill: str
    events: Sequence[JobEvent]
    log: Sequence[LogLine]
    absent: dict[str, str]


class _Entry:
    def __init__(self) -> None:
        self.reading: Reading[Any] = Reading()
        self.due = 0.0
        self.task: asyncio.Task[None] | None = None


class Readings:
    """The readings of one place; none is repeated within `fresh_seconds`.

    The client runs on the loop that all clients share, not on that of the server.
    """

    def __init__(
        self,
        jobs: Jobs,
        contents: Callable[[ImageNetJob], Contents],
        fresh_seconds: float = _FRESH_SECONDS,
    ) -> None:
        self.place = jobs.place
        self.options = jobs.options
        self._jobs = jobs
        self._contents = contents
        self._fresh_seconds = fresh_seconds
        self._entries: OrderedDict[str | None, _Entry] = OrderedDict()
        """By the name of a job; None is the list, since a viewer may ask for any name."""
        self._numbers = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def listed(self) -> Reading[tuple[ListedJob, ...]]:
        return await self._newest(None, lambda _: self._read_list())

    async def job(self, name: str) -> Reading[JobView] | None:
        """Return the reading of one job; None if there is none of this name."""
        if name not in self._entries:
            # A name from outside becomes part of a path, so only one from the list is read.
            known = (await self.listed()).value or ()
            if all(one.job.metadata.name != name for one in known):
                return None
        return await self._newest(name, lambda former: self._read_job(name, former))

    async def _newest(
        self, key: str | None, read: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Reading[Any]:
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        idle = [
            name for name, one in self._entries.items() if name is not None and one.task is None
        ]
        for name in idle[: max(0, len(self._entries) - 1 - JOBS_MAXIMUM)]:
            if name != key:
                del self._entries[name]
        if entry.task is None and time.monotonic() >= entry.due:
            entry.task = asyncio.create_task(self._read(entry, read))
        if entry.task is not None:
            is_first = entry.reading.number == 0
            await asyncio.wait((entry.task,), timeout=None if is_first else _WAIT_SECONDS)
        return entry.reading

    async def _read(self, entry: _Entry, read: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        former = entry.reading
        value, at, trouble = former.value, former.at, None
        now = datetime.now(UTC)
        since = now if former.trouble is None else former.trouble.since
        begin = time.monotonic()
        try:
            async with self._slots:
                begin = time.monotonic()
                work = asyncio.wait_for(read(former.value), _LONGEST_SECONDS)
                value = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop()))
                at = now
        except TimeoutError:
            trouble = Trouble(since, f"no answer within {_LONGEST_SECONDS:g} seconds")
        except (ImageNetJobError, OSError) as error:
            trouble = Trouble(since, str(error), isinstance(error, NotFound))
        except Exception as error:
            # A file of a volume may hold anything. One job must not end the pages of all.
            trouble = Trouble(since, f"{type(error).__name__}: {error}")
            if former.trouble is None or former.trouble.message != trouble.message:
                _LOGGER.exception("a reading failed")
        finally:
            end = time.monotonic()
            entry.task, entry.due = None, end + max(self._fresh_seconds, _REST * (end - begin))
        number = former.number
        if not number or (value, trouble) != (former.value, former.trouble):
            self._numbers += 1
            number = self._numbers
        entry.reading = Reading(value, at, number, trouble)

    async def _read_list(self) -> tuple[ListedJob, ...]:
        found = []
        for job in await self._jobs.list():
            found.append(ListedJob(job, await self._standstill(job)))
        return tuple(found)

    async def _read_job(self, name: str, former: JobView | None) -> JobView:
        job = await self._jobs.get(name)
        absent: dict[str, str] = {}
        events: Sequence[JobEvent] = ()
        log: Sequence[LogLine] = ()
        try:
            events = await self._jobs.events(name)
        except ImageNetJobError as error:
            absent["events"] = str(error)
        is_known = former is not None and former.contents.job == job and "log" not in former.absent
        if former is not None and is_known and is_finished(job.status):
            # Only events still come: the last ones follow the status.
            return replace(former, events=events, absent=absent)
        # A page must not create a pod, as reading a volume of a cluster does.
        selection = Selection(preparation=job.status.training is None, from_volume=False)
        try:
            log = [line async for line in self._jobs.logs(name, selection, tail=LOG_LINES)]
        except ImageNetJobError as error:
            absent["log"] = str(error)
        contents = await asyncio.to_thread(self._contents, job)
        if not contents.runs and "log" not in absent:
            # Of a cluster, whose volumes are not here.
            with suppress(ImageNetJobError):
                runs = _runs(await self._jobs.metrics(name, from_volume=False))
                contents = replace(contents, runs=runs)
        return JobView(contents, await self._standstill(job), events, log[-LOG_LINES:], absent)

    async def _standstill(self, job: ImageNetJob) -> str:
        error = await self._jobs.standstill(job)
        return "" if error is None else str(error)


def _runs(table: Any) -> list[Run]:
    rows = table if isinstance(table, list) else table.to_dict("records")
    by_attempt: dict[int, list[tuple[float, Event]]] = {}
    for row in rows:
        # A DataFrame has NaN for what an event does not have, and makes whole numbers floats.
        known = {
            key: int(value) if isinstance(value, float) and value.is_integer() else value
            for key, value in row.items()
            if value == value
        }
        if (event := from_line(json.dumps(known))) is not None:
            by_attempt.setdefault(known["attempt"], []).append(event)
    return [run for events in by_attempt.values() for run in runs_of(events)]
