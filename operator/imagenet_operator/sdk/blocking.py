"""The client for programs that do not await: scripts, notebooks, `imagenetctl`.

All clients of a process share one event loop, in a thread of its own. So a client also works where
a loop runs already, as in a notebook. Ctrl-C cancels what the caller waits for.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from imagenet_operator.sdk.background import is_here, loop, run
from imagenet_operator.sdk.interface import (
    JobEvent,
    JobList,
    Jobs,
    LogLine,
    Progress,
    Removal,
    Selection,
    Transferred,
)
from imagenet_operator.sdk.local import AsyncLocalClient
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob, Manifest

Answer = TypeVar("Answer")


class Client:
    """Jobs of one namespace of a cluster or, with `Client.local`, of a working directory.

    Without arguments it logs in as kubectl does: with the current context of KUBECONFIG, or, where
    there is no kubeconfig, with the service account of the pod that it runs in.

    Args:
        context: A context of KUBECONFIG; None is the current one.
        namespace: The namespace; None is that of the context, or of the pod.
        poll_seconds: The time between two looks at a job that is waited for; 2 if it is None.

    Attributes:
        place: Where the jobs are, in words.

    Raises:
        NoConnection: There is no login that can be used.

    Example:
        >>> client = Client(namespace="vision")
        >>> job = client.submit("job.yaml")
        >>> for line in client.logs(job.metadata.name, follow=True):
        ...     print(line.pod, line.text)
        >>> client.wait(job.metadata.name).status.training.accuracy
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        namespace: str | None = None,
        poll_seconds: float | None = None,
    ) -> None:
        # Imported here, because a client of a working directory needs no API client.
        from imagenet_operator.sdk.cluster import AsyncClient

        self._open(
            lambda: AsyncClient(context=context, namespace=namespace, poll_seconds=poll_seconds)
        )

    @staticmethod
    def local(workdir: Path | str = "imagenet-work") -> LocalClient:
        """Return a client of the jobs of a working directory of this machine.

        Args:
            workdir: What `imagenetctl run` has as --workdir.
        """
        return LocalClient(workdir)

    def _open(self, make: Callable[[], Jobs]) -> None:
        async def opened() -> Jobs:
            return await make().__aenter__()

        self.jobs = run(opened())
        self.place = self.jobs.place
        # Also at the end of the interpreter, and when no variable has the client any more.
        self._finalizer = weakref.finalize(self, _close, self.jobs, os.getpid())

    def close(self) -> None:
        """Close the connections; the client cannot be used after that."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(
        self, job: ImageNetJob | Manifest | Path | str, *, dry_run: bool = False
    ) -> ImageNetJob:
        """Create a job, and return it as it is stored.

        A job of the same name and spec is not created again: it is returned as it is. Its
        `runPolicy` may be another one, and stays.

        Args:
            job: The job, its manifest, or the path of a file with one.
            dry_run: Only check that it would be accepted.

        Raises:
            Rejected: It is invalid, or a job of its name has another spec; with path and hint.
        """
        return run(self.jobs.submit(job, dry_run=dry_run))

    def check(self, job: ImageNetJob, beside: Path | None = None) -> tuple[str, ...]:
        """Return what a job lacks where it would run, each in words.

        Args:
            job: The job.
            beside: The folder of its manifest, from which it may name images of this machine.
        """
        return run(self.jobs.check(job, beside))

    def list(self) -> JobList:
        """Return every job, by name."""
        return run(self.jobs.list())

    def get(self, name: str) -> ImageNetJob:
        """Return a job with its status.

        Raises:
            NotFound: There is none of this name.
        """
        return run(self.jobs.get(name))

    def events(self, name: str) -> tuple[JobEvent, ...]:
        """Return the events of a job, the oldest first."""
        return run(self.jobs.events(name))

    def standstill(self, job: ImageNetJob) -> ImageNetJobError | None:
        """Return why a job that has not ended will not go on by itself; None if it may."""
        return run(self.jobs.standstill(job))

    def watch(self, name: str) -> Iterator[ImageNetJob]:
        """Yield a job now and each `poll_seconds`, last when it has ended."""
        return _iterated(self.jobs.watch(name))

    def wait(
        self, name: str, until: str = "Succeeded", timeout: float | None = None
    ) -> ImageNetJob:
        """Wait until a job is in a state, and return it.

        Args:
            name: The job's.
            until: A condition or a phase, such as Succeeded or Running.
            timeout: The longest wait, in seconds; None has no end, and 0 looks once.

        Raises:
            NotFound: There is no job of this name, or it was deleted.
            JobEnded: It has ended before, and will never be in the state; with its reason.
            Timeout: The time has passed.
        """
        return run(self.jobs.wait(name, until, timeout))

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        role: str = "worker",
        index: int | None = None,
        all: bool = False,
        preparation: bool = False,
        attempt: int | None = None,
        tail: int | None = None,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Iterator[LogLine]:
        """Yield the lines of the logs of a job's pods; by default of rank 0.

        Args:
            name: The job's.
            follow: Go on until the job has ended, over restarts; before there are pods, wait.
            role: Of members.
            index: Of a member in its role.
            all: Every member of the attempt.
            preparation: The pods of the preparation, and no member.
            attempt: Its number; None is the current one, and those after it.
            tail: Of each log only so many last lines; None is all of it.
            image: With imagenet-door, for the log of an attempt whose pods are gone; None is that
                of the job, or of this release.
            say: Gets what is waited for, in words, when that changes.

        Raises:
            NotFound: There is no such job or, without `follow`, no such pod.
        """
        selection = Selection(role, index, all, preparation, attempt)
        return _iterated(
            self.jobs.logs(name, selection, follow=follow, tail=tail, image=image, say=say)
        )

    def upload(
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
        """Send a folder's files, or one file such as a tar, to a claim of the cluster.

        A second call goes on where the first one ended, and sends no file again that is there.

        Args:
            source: The folder or file of this machine.
            claim: The name of a PersistentVolumeClaim.
            size: That of a claim that does not exist yet, such as 10Gi; it is made with the
                default StorageClass, for one node at a time.
            path: The folder of the claim; empty is its root.
            image: With imagenet-door; None is the preparation image of this release.
            progress: Called as bytes leave.
            say: Gets what is waited for, in words, when that changes.

        Raises:
            NotFound: There is no such claim, and no size was given.
            Forbidden: A right is missing.
            ClusterError: Its pod does not start, or its volume is full.
        """
        return run(
            self.jobs.upload(
                source, claim, size=size, path=path, image=image, progress=progress, say=say
            )
        )

    def download(
        self,
        name: str,
        to: Path | str,
        *,
        checkpoint: str | int | None = None,
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Path:
        """Bring the model of a job to this machine, or one of its checkpoints; return the folder.

        The model comes with result.json, its card, its curves and the log. It is that of the best
        epoch if the job has `checkpoint.best`. All SHA-256 are compared. On a cluster, a second
        call goes on where the first one ended. If the claim is gone and the job has uploaded its
        results, they come from the bucket.

        Args:
            name: The job's.
            to: A folder of this machine; in a working directory's client a new one.
            checkpoint: `best`, `last`, or a number of finished epochs; None is the model.
            image: With imagenet-door; None is that of the job, or of this release.
            progress: Called as bytes arrive.
            say: Gets what is waited for, in words, when that changes.

        Raises:
            NotFound: There is no such job, or it has no model or no such checkpoint.
            Forbidden: A right is missing.
            ClusterError: The files cannot be read or written, or are not those of the training.
        """
        return run(
            self.jobs.download(
                name, to, checkpoint=checkpoint, image=image, progress=progress, say=say
            )
        )

    def metrics(
        self,
        name: str,
        *,
        from_volume: bool = True,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Any:
        """Return the [events](telemetry.md#events) of a job's training, a row each.

        A row has the attempt, the time and the fields of the event. They come from the volume; on a
        cluster through a pod, as for `download`.

        Args:
            name: The job's.
            from_volume: Without it, no pod is created: on a cluster, the events are the starts of
                attempts, intervals, epochs and validations in the logs of rank 0 that are there,
                rounded as there.
            image: With imagenet-door; None is that of the job, or of this release.
            say: Gets what is waited for, in words, when that changes.

        Returns:
            A pandas DataFrame if pandas is installed, else a list of dictionaries.

        Raises:
            NotFound: There is no job of this name, or it has not trained yet.
            Forbidden: A right is missing.
            ClusterError: The pod does not start, or the files cannot be read.
        """
        return run(self.jobs.metrics(name, from_volume=from_volume, image=image, say=say))

    def suspend(self, name: str) -> None:
        """Stop a job; it keeps its checkpoints. In a working directory, interrupt its run."""
        run(self.jobs.suspend(name))

    def resume(self, name: str) -> None:
        """Let a suspended job go on from its newest checkpoint."""
        run(self.jobs.resume(name))

    def removal(self, name: str) -> Removal:
        """Return what `delete` would remove, and what it would leave."""
        return run(self.jobs.removal(name))

    def delete(self, name: str) -> None:
        """Delete a job, and what belongs to it."""
        run(self.jobs.delete(name))


class LocalClient(Client):
    """Jobs of a working directory; `Client.local` makes one.

    Args:
        workdir: What `imagenetctl run` has as --workdir.

    Example:
        >>> client = Client.local("work")
        >>> client.submit("job.yaml")
        >>> client.wait("digits")
        >>> client.metrics("digits")
        >>> client.download("digits", "model")
    """

    def __init__(self, workdir: Path | str = "imagenet-work") -> None:
        self._local = AsyncLocalClient(workdir)
        self._open(lambda: self._local)


def _iterated(items: AsyncIterator[Answer]) -> Iterator[Answer]:
    """Yield the items of an asynchronous iterator."""
    try:
        while (item := run(_next(items))) is not None:
            yield item
    finally:
        if (close := getattr(items, "aclose", None)) is not None:
            _finish(close())


def _close(jobs: Jobs, process: int) -> None:
    # The connections of a fork are those of its parent.
    if os.getpid() == process:
        _finish(jobs.__aexit__(None, None, None))


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; only begin it on the shared loop, as a garbage collector may."""
    if is_here():
        asyncio.run_coroutine_threadsafe(work, loop())
    else:
        run(work)


async def _next(items: AsyncIterator[Answer]) -> Answer | None:
    return await anext(items, None)
