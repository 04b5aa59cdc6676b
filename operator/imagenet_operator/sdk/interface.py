"""What every client of jobs can do, on a cluster or in a working directory.

A client's `place` says in words where its jobs are, for messages. A wait asks again each
`poll_seconds`. An API server that does not answer ends no wait: `Outage` is the one policy for
that, and logs are followed with it too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self, TypeVar, get_args

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.reconcile import uploads
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.sdk.errors import JobEnded, NotFound, Timeout
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob, Manifest, table
from imagenet_spec.resource.status import ConditionType, Phase

STATES: Final = tuple(dict.fromkeys((*get_args(ConditionType), *get_args(Phase))))
"""What `wait` can wait for: the conditions and the phases of a job."""

_AFTER_WORK: Final = (
    *("Suspended", "Failed", "Straggling", "Restarting", "Suspending"),
    uploads.UPLOADED,
)
"""States that a job which has succeeded need not have been in."""

POLL_SECONDS: Final = 2.0

_LOGGER: Final = logging.getLogger(__name__)

OUTAGE_SECONDS: Final = 300.0
"""Longer than most upgrades of a control plane and interruptions of a laptop's network."""

Answer = TypeVar("Answer")


class JobList(tuple[ImageNetJob, ...]):
    """Jobs by name, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return table.as_html(self)


@dataclass(frozen=True)
class JobEvent:
    """An event of a job, as `kubectl describe` shows it.

    Attributes:
        time: When it last happened.
        type: Normal or Warning.
        count: How often it has happened.
    """

    time: datetime
    type: str
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True)
class Removal:
    """What the deletion of a job removes, and what stays; each in words."""

    goes: tuple[str, ...]
    stays: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogLine:
    """A line of a log.

    Attributes:
        pod: The pod that wrote it.
        text: The line, without its line break.
        time: When it was written; None in a working directory, whose logs do not say.
    """

    pod: str
    text: str
    time: datetime | None = None


@dataclass(frozen=True)
class Selection:
    """Which pods of a job.

    Attributes:
        role: Of members; without an index, the first one, of workers that of rank 0.
        index: Of a member in its role.
        all: Every member of the attempt.
        preparation: The pods of the preparation, and no member.
        attempt: Its number; None is the current one, and those after it.
        from_volume: If the pod of rank 0 is gone, the log that it has left on the volume. On a
            cluster, a pod is created to read it.
    """

    role: str = "worker"
    index: int | None = None
    all: bool = False
    preparation: bool = False
    attempt: int | None = None
    from_volume: bool = True


@dataclass(frozen=True)
class Progress:
    """How far a transfer is; what was there already counts as done.

    Attributes:
        files: Those that are done.
        of_files: All.
        bytes: Those that are done.
        of_bytes: All.
    """

    files: int
    of_files: int
    bytes: int
    of_bytes: int


@dataclass(frozen=True)
class Transferred:
    """What a transfer has done.

    Attributes:
        files: How many files were sent.
        bytes: How many bytes of files this call has sent.
        unchanged: How many were there already.
        left_out: What was not sent, each with the reason: links, devices, names that are not
            portable.
    """

    files: int
    bytes: int
    unchanged: int
    left_out: tuple[tuple[str, str], ...] = ()


class Outage:
    """Repeats requests to an API server that does not answer, until it has been away too long.

    `is_passing` says whether an error may pass by itself, `say` gets the words for an outage when
    it begins.
    """

    def __init__(
        self,
        poll_seconds: float,
        is_passing: Callable[[ClusterError], bool],
        seconds: float = OUTAGE_SECONDS,
        say: Callable[[str], None] = lambda said: None,
    ) -> None:
        self.poll_seconds = poll_seconds
        self._is_passing = is_passing
        self._seconds = seconds
        self._say = say
        self._since: float | None = None

    async def ask(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer; raise an error that does not pass or lasts too long."""
        while True:
            try:
                answer = await request()
            except ClusterError as error:
                await self.pause(error)
            else:
                self.over()
                return answer

    async def pause(self, error: ClusterError) -> None:
        """Wait after a failure; raise it if it does not pass, or has lasted too long."""
        now = time.monotonic()
        begins = self._since is None
        self._since = self._since or now
        if not self._is_passing(error) or now >= self._since + self._seconds:
            raise error
        if begins:
            self._say(f"no answer, which may pass in up to {self._seconds:g} seconds: {error}")
        await asyncio.sleep(self.poll_seconds)

    def over(self) -> None:
        self._since = None


class Jobs(ABC):
    """The jobs of one place; entered before its use, as ``async with``.

    `Client` has the arguments and errors of the methods.

    Attributes:
        place: Where the jobs are, in words: a namespace of a cluster, or a working directory.
        options: The options of imagenetctl that name the place, each after a space.
        poll_seconds: The time between two looks at a job that is waited for.
    """

    place: str
    options: str
    poll_seconds: float = POLL_SECONDS

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @abstractmethod
    async def submit(
        self, job: ImageNetJob | Manifest | Path | str, *, dry_run: bool = False
    ) -> ImageNetJob:
        """Create a job, or return that of the same name and spec, as it is stored."""

    async def check(self, job: ImageNetJob, beside: Path | None = None) -> tuple[str, ...]:
        """Return what a job lacks where it would run, each in words."""
        del job, beside
        return ()

    @abstractmethod
    async def list(self) -> JobList:
        """Return every job, by name."""

    @abstractmethod
    async def get(self, name: str) -> ImageNetJob:
        """Return a job with its status."""

    @abstractmethod
    async def events(self, name: str) -> tuple[JobEvent, ...]:
        """Return the events of a job, the oldest first."""

    @abstractmethod
    def logs(
        self,
        name: str,
        selection: Selection = Selection(),
        *,
        follow: bool = False,
        tail: int | None = None,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> AsyncIterator[LogLine]:
        """Yield the lines of the logs of a job's pods; by default of rank 0."""

    @abstractmethod
    async def metrics(
        self,
        name: str,
        *,
        from_volume: bool = True,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Any:
        """Return the events of a job's training: a row each, with the attempt and the time."""

    @abstractmethod
    async def suspend(self, name: str) -> None:
        """Stop a job; it keeps its checkpoints."""

    @abstractmethod
    async def resume(self, name: str) -> None:
        """Let a suspended job go on from its newest checkpoint."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete a job, and what belongs to it; `removal` says what that is."""

    @abstractmethod
    async def removal(self, name: str) -> Removal:
        """Return what `delete` would remove, and what it would leave."""

    @abstractmethod
    async def upload(
        self,
        source: Path | str,
        claim: str,
        *,
        size: str | None = None,
        path: str = "",
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Transferred:
        """Send a folder's files to a claim."""

    @abstractmethod
    async def download(
        self,
        name: str,
        to: Path | str,
        *,
        checkpoint: str | int | None = None,
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Path:
        """Bring a model or a checkpoint here."""

    @abstractmethod
    def is_passing(self, error: ClusterError) -> bool:
        """Whether a failure may pass by itself."""

    async def standstill(self, job: ImageNetJob) -> ImageNetJobError | None:
        """Return why a job that has not ended will not go on by itself; None if it may."""
        del job
        return None

    async def watch(self, name: str, until: str = "") -> AsyncIterator[ImageNetJob]:
        """Yield a job now and each `poll_seconds`, last when it has ended.

        With `until` ModelUploaded, that is when its upload has ended too.

        Raises:
            NotFound: There is none, or it was deleted.
        """
        # A login or a server that does not work is no outage, but said at once.
        job = await self.get(name)
        uid = job.metadata.uid
        outage = Outage(self.poll_seconds, self.is_passing, say=_LOGGER.warning)
        while True:
            yield job
            if _is_over(job, until):
                return
            if (error := await self.standstill(job)) is not None:
                raise error
            await asyncio.sleep(self.poll_seconds)
            job = await outage.ask(lambda: self.get(name))
            if job.metadata.uid != uid:
                raise NotFound(f"{name} was deleted, and another job has its name now")

    async def wait(
        self, name: str, until: str = "Succeeded", timeout: float | None = None
    ) -> ImageNetJob:
        """Wait until a job is in a state, and return it."""
        if until not in STATES:
            raise ImageNetJobError(
                f"{until!r} is no state of a job; write one of {', '.join(STATES)}"
            )
        job = None
        try:
            # Without time there is one look, however long its answer takes.
            async with asyncio.timeout(timeout or None):
                async for job in self.watch(name, until):
                    if is_reached(job, until):
                        return job
                    if timeout == 0 and not _is_over(job, until):
                        raise TimeoutError
        except TimeoutError as error:
            state = "its state is not known" if job is None else in_words(job)
            raise Timeout(f"{name} is not {until} after {timeout:g} seconds: {state}") from error
        assert job is not None
        raise JobEnded(f"{name} will not be {until}: {in_words(job)}", job.status.reason or "")


def _is_over(job: ImageNetJob, state: str) -> bool:
    """Whether a job will never be in a state in which it is not."""
    is_going_on = state == uploads.UPLOADED and uploads.is_uploading(job)
    return is_finished(job.status) and not is_going_on


def is_reached(job: ImageNetJob, state: str) -> bool:
    """Whether a job is in a state; one that has succeeded was in those before."""
    status = job.status
    if status.phase == state:
        return True
    if any(item.type == state and item.status == "True" for item in status.conditions):
        return True
    return job_status.holds(status.conditions, "Succeeded") and state not in _AFTER_WORK


def in_words(job: ImageNetJob) -> str:
    """Return a job's phase and the condition that explains it."""
    status = job.status
    at_rest: tuple[ConditionType, ...] = ("Failed", "Succeeded", "Suspended")
    held = (kind for kind in at_rest if job_status.holds(status.conditions, kind))
    found = job_status.find(status.conditions, next(held, job_status.awaited(status)))
    if found is None:
        return f"it is {status.phase or 'not seen by an operator yet'}"
    return f"it is {status.phase}: " + ": ".join(filter(None, (found.reason, found.message)))
