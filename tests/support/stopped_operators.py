"""Operators in threads of their own, which stop in the middle of a write as if by SIGSTOP.

The thread that is stopped runs the whole event loop of its operator, so nothing of it goes on:
neither the renewals of its lease nor its timers. Its clock does. Other operators and the API server
have loops of their own.

All times are divided by 20: those of the lease, and those that decisions wait for. They pass by a
clock that waits for operators that a busy machine holds up, but not for those that are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import client as clients
from imagenet_operator.clusters.kubernetes import leader_election, objects
from imagenet_operator.clusters.kubernetes.client import TIMES, ApiError, Client, Fence, LeaseTimes
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection, LeaseLost
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_operator.configuration import parse
from support.operator_harness import QUICK
from support.paced_clock import PacedClock

Reconcile = Callable[[JobKey], Awaitable[timedelta | None]]

START = datetime(2026, 1, 2, tzinfo=UTC)
DIVISOR = 20
QUICK_LEASE = LeaseTimes(
    *(getattr(TIMES, name) / DIVISOR for name in ("duration", "renew_deadline", "retry_period"))
)


CLOCKED = (clients, leader_election)
"""The modules that read a monotonic clock, as `time`, which a test has to replace."""


class Place(Enum):
    """Where in a write an operator is stopped."""

    BEFORE_CHECK = "before the check"
    BEFORE_SEND = "between check and send"


@dataclass
class Stop:
    """Stops the operator that comes first to the nth write of all, until it is released.

    Attributes:
        place: Where in that write.
        count: How many writes came to that place before it, and in it.
        happened: Set once an operator has stopped.
        stopped: That operator.
    """

    place: Place
    number: int
    count: int = 0
    happened: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    stopped: Replica | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, replica: Replica, place: Place) -> None:
        """Stop this thread if it is the one."""
        if place is not self.place:
            return
        with self._lock:
            self.count += 1
            if self.count != self.number:
                return
            self.stopped = replica
        replica.clock.leave(replica)
        self.happened.set()
        self.released.wait()


class _Fence(Fence):
    """The fence of an operator that may be stopped.

    Attributes:
        admitted_late: How many writes it has admitted since the operator was released.
    """

    def __init__(self, replica: Replica) -> None:
        super().__init__(QUICK_LEASE)
        self._replica = replica
        self.admitted_late = 0

    def seconds_left(self) -> float:
        self._replica.stop.reach(self._replica, Place.BEFORE_CHECK)
        left = super().seconds_left()
        if left > 0 and self._replica.was_stopped:
            self.admitted_late += 1
        return left


class Replica:
    """One operator, from now on until `end`.

    Attributes:
        leads: Whether it has begun to act, and has not ended.
        fence: What it may send by.
        lost: Whether it has ended because it lost its lease.
    """

    def __init__(self, url: str, stop: Stop, clock: PacedClock) -> None:
        self.stop = stop
        self.clock = clock
        self.fence = _Fence(self)
        self.leads = False
        self.lost = False
        self._url = url
        self._loop = asyncio.new_event_loop()
        clock.join(self._loop)
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or is stopped."""
        return self._thread.is_alive()

    @property
    def was_stopped(self) -> bool:
        """Whether it is the one that was stopped, and released again."""
        return self.stop.stopped is self and self.stop.released.is_set()

    def end(self) -> None:
        """Have it end soon."""
        with contextlib.suppress(RuntimeError):  # It has ended, and its loop is closed.
            self._loop.call_soon_threadsafe(self._ending.set)

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run())
        self.clock.leave(self)

    def _now(self) -> datetime:
        """Return the time of a clock that runs 20 times as fast."""
        return START + DIVISOR * timedelta(seconds=self.clock.monotonic())

    async def _run(self) -> None:
        connection = Connection(self._url)
        configured = parse(QUICK, "test")
        async with Client(connection) as lease_client, Client(connection, self.fence) as client:
            self._stop_before_send(client)
            election = LeaderElection(lease_client, "kube-system", (), self.fence, QUICK_LEASE)
            operator = Operator(client, configured, self._now, election)
            operator.loop.debounce_seconds = 0
            operator.loop._reconcile = _quickly(operator.loop._reconcile)
            operator.begin = self._beginning(operator.begin)  # type: ignore[method-assign]
            tasks = [
                asyncio.create_task(operator.run()),
                asyncio.create_task(_follow_jobs(client, operator)),
                asyncio.create_task(self._ending.wait()),
                asyncio.create_task(self.clock.beat(self)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.leads = False
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            self.lost = isinstance(outcomes[0], LeaseLost)

    def _beginning(self, begin: Callable[[], None]) -> Callable[[], None]:
        def begun() -> None:
            self.leads = True
            begin()

        return begun

    def _stop_before_send(self, client: Client) -> None:
        """Stop in the last moment before a request is written to its connection."""
        assert client._session is not None
        connector: Any = client._session.connector
        connect = connector.connect

        async def connected(request: Any, *arguments: Any, **named: Any) -> Any:
            found = await connect(request, *arguments, **named)
            if request.method != "GET":
                self.stop.reach(self, Place.BEFORE_SEND)
            return found

        connector.connect = connected


def _quickly(reconcile: Reconcile) -> Reconcile:
    """Have a job reconciled again after a 20th of the time."""

    async def quick(key: JobKey) -> timedelta | None:
        wait = await reconcile(key)
        return None if wait is None else wait / DIVISOR

    return quick


async def _follow_jobs(client: Client, operator: Operator) -> None:
    """Report the jobs to the operator, in place of kopf, which takes longer to start."""
    path, version = objects.JOB.path(), ""
    while True:
        try:
            if not version:
                listed = await client.get(path)
                version = listed["metadata"]["resourceVersion"]
                for item in listed["items"]:
                    operator.job_event(None, item)
            async for event, item in client.watch(path, 60, resourceVersion=version):
                version = item["metadata"]["resourceVersion"]
                if event != "BOOKMARK":
                    operator.job_event(event, item)
        except ApiError:
            version = ""
