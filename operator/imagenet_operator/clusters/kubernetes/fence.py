"""The fence: until when this process may send requests that change something.

`leader_election` extends it with each renewal of the lease. `client` asks it before it sends such a
request, and ends the request before another process may become the leader. Only the monotonic clock
of this process counts, never a time that another machine wrote.

    renewed            renew_deadline               quiet             duration
       |--- may be sent -----|--- may still run ------|---- slack -------|  others may lead

The slack is for monotonic clocks that differ in speed.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from imagenet_operator.clusters.kubernetes.retries import Answer


@dataclass(frozen=True)
class LeaseTimes:
    """The times of a lease in seconds; the defaults are those of client-go.

    Attributes:
        duration: How long others wait without a renewal before they take the lease.
        renew_deadline: How long the holder tries to renew it before it gives up.
        retry_period: The time between two renewals, and between two attempts to acquire it.
    """

    # A whole number, since it is written into the Lease.
    duration: float = 15
    renew_deadline: float = 10
    retry_period: float = 2

    @property
    def quiet(self) -> float:
        """Seconds after a renewal by which every request of the holder has ended."""
        return self.duration - self.retry_period


TIMES = LeaseTimes()


class Fence:
    """Whether requests that change something may be sent, by the age of the lease's renewal.

    Args:
        times: The times of the lease.
    """

    def __init__(self, times: LeaseTimes = TIMES) -> None:
        self._times = times
        self._renewed_at = -math.inf
        self._unanswered_until = -math.inf
        self._under_way: set[asyncio.Task[Answer]] = set()

    def extend(self, renewed_at: float) -> None:
        """Move the fence.

        Args:
            renewed_at: When the request that renewed the lease was about to be sent.
        """
        self._renewed_at = renewed_at

    def close(self) -> None:
        """Let no further request pass."""
        self._renewed_at = -math.inf

    def seconds_left(self) -> float:
        """Return how long a request that is sent now may take; 0 if none may be sent."""
        now = time.monotonic()
        if now >= self._renewed_at + self._times.renew_deadline:
            return 0.0
        return self._renewed_at + self._times.quiet - now

    async def follow(
        self, request: Callable[[], Coroutine[Any, Any, Answer]], end: float
    ) -> Answer:
        """Return the answer of a request that the fence has admitted.

        Whoever waits for it may be cancelled. The request goes on then, because its answer says
        that the API server will not carry it out any more.

        Args:
            request: Sends the request; not called if its task is cancelled before it begins.
            end: When its time is over, by the monotonic clock.
        """
        task = asyncio.create_task(self._note(request, end))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _note(self, request: Callable[[], Coroutine[Any, Any, Answer]], end: float) -> Answer:
        answered = False
        try:
            answer = await request()
            answered = answer.error is None
            return answer
        finally:
            # The API server may still carry it out until then.
            if not answered:
                self._unanswered_until = max(self._unanswered_until, end)

    async def settle(self, seconds: float) -> bool:
        """Wait for the answers of the requests under way, and cut off those that take too long.

        Returns:
            Whether every request that was sent has had its answer, or its time is over.
        """
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        return time.monotonic() >= self._unanswered_until
