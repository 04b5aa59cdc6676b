"""Follows the logs of a job's pods, over the restarts of the job and of the API server.

Pods are known by their names: ``NAME-rATTEMPT-ROLE-INDEX`` is a member of an attempt, any other pod
belongs to the preparation. `follow` looks for pods that have started, and reads each log once, to
its end. A job that has no such pod yet is waited for. The pods of an earlier attempt are gone; of
its rank 0, the log that it has left on the volume is read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from imagenet_operator.manifests import names, volumes
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.sdk.errors import NotFound
from imagenet_operator.sdk.interface import LogLine, Selection, in_words
from imagenet_spec.names import READABLE_LOG
from imagenet_spec.resource import ImageNetJob

_LINES_AHEAD: Final = 1000
"""Lines that are read before the reader of `follow` takes them."""


@dataclass(frozen=True)
class Member:
    """A member of an attempt, as its pod's name says it."""

    attempt: int
    role: str
    index: int


def member_of(job_name: str, pod: str) -> Member | None:
    """Return the member that a pod of a job is; None for a pod of the preparation."""
    found = re.fullmatch(rf"{re.escape(job_name)}-r(\d+)-([a-z]+)-(\d+)", pod)
    return None if found is None else Member(int(found[1]), found[2], int(found[3]))


class Source(Protocol):
    """Where logs come from."""

    poll_seconds: float

    async def job(self) -> ImageNetJob:
        """Return the job as it is now."""

    async def started(self) -> set[str]:
        """Return the names of the pods of the job that have started, ended ones included."""

    async def is_over(self, job: ImageNetJob) -> bool:
        """Whether the job will start no more pods."""

    def read(self, pod: str, *, follow: bool, tail: int | None) -> AsyncIterator[LogLine]:
        """Yield the last `tail` lines of a pod's log; with `follow`, until the pod has ended."""

    def kept(self, job: ImageNetJob, attempt: int) -> AsyncIterator[LogLine]:
        """Yield the lines that rank 0 of an attempt has left on the volume; none without them."""


async def follow(
    source: Source,
    selection: Selection,
    *,
    to_the_end: bool,
    tail: int | None,
    say: Callable[[str], None],
) -> AsyncIterator[LogLine]:
    """Yield the lines of the selected pods; the arguments are those of `Jobs.logs`."""
    job = await source.job()
    first = selection.attempt
    if first is None:
        first = 0 if job.status.training is None else job.status.training.attempt
    if not to_the_end:
        pods = _chosen(job, await source.started(), selection, first)
        if not pods:
            async for line in _kept(source, job, selection, first, tail):
                yield line
        for pod in pods:
            async for line in source.read(pod, follow=False, tail=tail):
                yield line
        return
    read: set[str] = set()
    queue: asyncio.Queue[LogLine] = asyncio.Queue(_LINES_AHEAD)

    async def copy(pod: str) -> None:
        async for line in source.read(pod, follow=True, tail=tail):
            await queue.put(line)

    async def look() -> None:
        said = ""
        async with asyncio.TaskGroup() as readers:
            while True:
                job = await source.job()
                # Asked before the pods are listed, so that none of them is missed.
                is_over = await source.is_over(job) or _is_past(job, selection)
                for pod in _chosen(job, await source.started(), selection, first):
                    if pod not in read:
                        read.add(pod)
                        readers.create_task(copy(pod))
                if is_over:
                    return
                if not read and (words := in_words(job)) != said:
                    said = words
                    say(f"{job.metadata.name} has no such pod yet: {words}")
                await asyncio.sleep(source.poll_seconds)

    task = asyncio.create_task(look())
    getter: asyncio.Task[LogLine] | None = None
    try:
        while True:
            while not queue.empty():
                yield queue.get_nowait()
            if task.done():
                break
            getter = asyncio.create_task(queue.get())
            await asyncio.wait((getter, task), return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                yield getter.result()
            else:
                # It may have been woken, and would take a line.
                getter.cancel()
        try:
            await task
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
    finally:
        begun = [task] if getter is None else [task, getter]
        for item in begun:
            item.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
    if not read:
        async for line in _kept(source, await source.job(), selection, first, tail):
            yield line


async def _kept(
    source: Source, job: ImageNetJob, selection: Selection, attempt: int, tail: int | None
) -> AsyncIterator[LogLine]:
    """Yield what is left of the log of an attempt whose pods are gone, or raise NotFound."""
    training = job.status.training
    last = -1 if training is None else training.attempt
    is_over = attempt < last or (attempt == last and is_finished(job.status))
    if is_over and selection in (Selection(), Selection(attempt=attempt)):
        lines = [line async for line in source.kept(job, attempt)]
        if lines:
            for line in lines if tail is None else lines[max(0, len(lines) - tail) :]:
                yield line
            return
    raise NotFound(_none(job, selection, attempt))


def kept_lines(folder: Path, pod: str) -> Iterator[LogLine]:
    """Yield the lines of the log that rank 0 leaves in the folder of its attempt."""
    # The part before it has this name, once the log is large.
    for name in (f"{READABLE_LOG}.1", READABLE_LOG):
        if (folder / name).exists():
            with (folder / name).open(encoding="utf-8", errors="replace", newline="\n") as lines:
                for line in lines:
                    yield LogLine(pod, line.removesuffix("\n"))


def _chosen(job: ImageNetJob, pods: set[str], selection: Selection, first: int) -> list[str]:
    name = job.metadata.name
    if selection.preparation:
        return sorted(pod for pod in pods if member_of(name, pod) is None)
    found = {pod: member for pod in pods if (member := member_of(name, pod)) is not None}
    training = job.status.training
    rank0 = None if training is None else training.rank0_pod
    chosen = []
    for pod, member in found.items():
        if member.attempt < first or (selection.attempt is not None and member.attempt != first):
            continue
        if not selection.all:
            if member.role != selection.role:
                continue
            if selection.index is not None:
                is_it = member.index == selection.index
            elif (
                rank0 is not None
                and (known := member_of(name, rank0)) is not None
                and ((known.attempt, known.role) == (member.attempt, member.role))
            ):
                is_it = pod == rank0
            else:
                is_it = member.index == 0
            if not is_it:
                continue
        chosen.append(pod)
    return sorted(chosen, key=lambda pod: (found[pod].attempt, found[pod].role, found[pod].index))


def _is_past(job: ImageNetJob, selection: Selection) -> bool:
    """Whether the selected pods will not start any more, because the job is beyond them."""
    training = job.status.training
    if training is None:
        return False
    if selection.preparation:
        return True
    return selection.attempt is not None and training.attempt > selection.attempt


def _none(job: ImageNetJob, selection: Selection, attempt: int) -> str:
    name, training = job.metadata.name, job.status.training
    if selection.preparation:
        what = "pod of the preparation"
    elif selection.all:
        what = f"pod of attempt {attempt}"
    else:
        index = 0 if selection.index is None else selection.index
        what = f"pod {names.member(name, attempt, selection.role, index)}"
    if training is None and not is_finished(job.status):
        return f"{name} has no {what} yet: {in_words(job)}; wait for it with --follow"
    said = f"{name} has no {what} any more, or never had one: {in_words(job)}"
    claim = volumes.output_claim(job)
    if training is None or attempt > training.attempt or claim is None or selection.preparation:
        return said
    folder = names.attempt_folder(name, job.metadata.uid, attempt)
    return f"{said}; rank 0 leaves {folder}/{READABLE_LOG} on the claim {claim}"
