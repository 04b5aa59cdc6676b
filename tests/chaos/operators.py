"""Operators of a schedule: the real one, each in a process of its own that can stop and die.

A process that ends because it lost its lease is started again, as the kubelet does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import ApiError, Client, Fence, LeaseTimes
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection, LeaseLost
from imagenet_operator.clusters.kubernetes.login import Connection, Credentials
from imagenet_operator.clusters.kubernetes.objects import NamedClaims
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_operator.configuration import Configuration
from support.virtual_time import Process, VirtualTimeLoop

_KOPF_WATCH_SECONDS = "180"
_KOPF_SILENCE_SECONDS = 240.0
_KOPF_RECONNECT_SECONDS = 0.1
_KOPF_ERROR_SECONDS = 1.0
_RESTART_SECONDS = 2.0

_LEASE_TIMES = LeaseTimes(duration=45, renew_deadline=30, retry_period=10)
"""Three times client-go's, so that most requests of a schedule are about its jobs."""


class _Token:
    """A login by a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def log_in(self) -> Credentials:
        return Credentials(headers=(("Authorization", f"Bearer {self._name}"),))


class RunningOperator:
    """One operator, which is started again after its death.

    Args:
        name: What its requests carry as their sender, with a number of the process.
        url: The API server's.
        configuration: The operator's.
        clock: The true time.
        has_lease: Whether it acts only while it holds the Lease.

    Attributes:
        ahead: How far its clock is ahead of the true time.
        lost_leases: How many of its processes ended because they had lost their lease.
    """

    def __init__(
        self,
        name: str,
        url: str,
        configuration: Configuration,
        clock: Callable[[], datetime],
        *,
        has_lease: bool,
    ) -> None:
        self.ahead = timedelta()
        self.lost_leases = 0
        self._has_lease = has_lease
        self._restart: asyncio.TimerHandle | None = None
        self._name = name
        self._url = url
        self._configuration = configuration
        self._clock = clock
        self._lives = 0
        self._all: list[tuple[Process, asyncio.Task[None]]] = []
        self.start()

    def start(self) -> None:
        """Start a process."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self._lives += 1
        self._process = Process(loop)
        task = self._process.start(self._run(f"{self._name}-{self._lives}"))
        self._all.append((self._process, task))
        task.add_done_callback(self._start_again)

    def _start_again(self, ended: asyncio.Task[None]) -> None:
        if ended.cancelled():
            return
        assert isinstance(ended.exception(), LeaseLost), ended.exception()
        self.lost_leases += 1
        loop = asyncio.get_running_loop()
        self._restart = loop.call_later(_RESTART_SECONDS, self.start)

    def pause(self) -> None:
        """Stop the process, as SIGSTOP or a busy machine does."""
        self._process.pause()

    def resume(self) -> None:
        """Let the process go on."""
        self._process.resume()

    def kill(self) -> None:
        """End the process as kill -9 does: no task of it takes another step."""
        self._process.pause()

    @property
    def is_paused(self) -> bool:
        """Whether the process does nothing."""
        return self._process.is_paused

    def jump(self, seconds: float) -> None:
        """Set the clock."""
        self.ahead += timedelta(seconds=seconds)

    async def end(self) -> None:
        """Remove what is left of all processes."""
        if self._restart is not None:
            self._restart.cancel()
        for process, task in self._all:
            process.resume()
            task.cancel()
        await asyncio.gather(*(task for _, task in self._all), return_exceptions=True)

    async def _run(self, sender: str) -> None:
        connection = Connection(self._url, _Token(sender))
        fence = Fence() if self._has_lease else None
        async with Client(connection) as lease_client, Client(connection, fence) as client:
            election = None
            if fence is not None:
                place = self._configuration.lease_namespace
                election = LeaderElection(lease_client, place, (), fence, _LEASE_TIMES)
                election.identity = sender
            clock = lambda: self._clock() + self.ahead  # noqa: E731
            operator = Operator(client, self._configuration, clock, election)
            cluster = operator.cluster
            claims = cluster.children["PersistentVolumeClaim"]
            cluster.named_claims = NamedClaims(client, claims, asyncio.get_running_loop().time)
            reports = asyncio.create_task(_report_jobs(client, operator))
            try:
                await operator.run()
            finally:
                reports.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reports


async def _report_jobs(client: Client, operator: Operator) -> None:
    """Do as kopf: list the jobs, watch them, and begin again whenever a watch ends."""
    path = objects.JOB.path()
    while True:
        try:
            version = ""
            async for page in client.pages(path):
                version = page["metadata"]["resourceVersion"]
                for item in page["items"]:
                    operator.job_event(None, item)
            async for event, item in client.watch(
                path,
                _KOPF_SILENCE_SECONDS,
                resourceVersion=version,
                timeoutSeconds=_KOPF_WATCH_SECONDS,
            ):
                if event == "ERROR":
                    break
                if event != "BOOKMARK":
                    operator.job_event(event, item)
            await asyncio.sleep(_KOPF_RECONNECT_SECONDS)
        except ApiError:
            await asyncio.sleep(_KOPF_ERROR_SECONDS)
