"""A monotonic clock for several event loops in threads, which waits for each of them.

On a busy machine a thread may not run for seconds. By the clock of the machine it would then miss
every deadline. By this one it does not: time stands still until each loop has run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

STEP = 0.05
"""The largest step of the clock, in seconds."""

LAG = 0.1
"""How far a loop may be behind before the clock waits for it, in seconds."""

BEAT = 0.02
"""The time between two signs of life of a loop, in seconds."""


class PacedClock:
    """Passes as fast as the machine's clock at most, while `running` runs."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._heard: dict[object, float] = {}

    def monotonic(self) -> float:
        """Return the seconds, as the function of this name in `time`."""
        return self._now

    def join(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a loop that does not run yet go by this clock."""
        loop.time = self.monotonic  # type: ignore[method-assign]

    async def beat(self, who: object) -> None:
        """Tell the clock that a loop runs, until cancelled; in that loop."""
        while True:
            self._heard[who] = self._now
            await asyncio.sleep(BEAT)

    def leave(self, who: object) -> None:
        """Do not wait for a loop until its next beat."""
        self._heard.pop(who, None)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let time pass until the block ends."""
        passing = asyncio.create_task(self._pass())
        try:
            yield
        finally:
            passing.cancel()

    async def _pass(self) -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(BEAT / 2)
            now = time.monotonic()
            if all(heard > self._now - LAG for heard in list(self._heard.values())):
                self._now += min(now - before, STEP)
            before = now
