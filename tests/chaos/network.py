"""What happens to requests on their way: errors, lost answers, late requests, watches that lag.

A `Rule` holds for a while, for some requests. It counts as injected whenever it strikes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.counts import Counts
from support.api_requests import Lost, Refusal, Request

Matches = Callable[[Request], bool]
REQUEST_SECONDS = 0.02
"""How long each request takes: without it, two operators could disagree for ever at one time."""

WRITES = ("create", "delete", "patch", "update")


@dataclass(frozen=True)
class Rule:
    """One kind of trouble.

    Attributes:
        fault: Its name in the table.
        until: When it ends, by the loop's clock.
        matches: Which requests it strikes.
        chance: How many of them.
        refusal: The answer; None for none.
        delay: Seconds that pass before the request is carried out.
        lost: Whether the connection is cut.
        on_time: Whether a request is dropped that is late by its own time limit: the API server
            does so, a network does not.
    """

    fault: str
    until: float
    matches: Matches
    chance: float = 1.0
    refusal: Refusal | None = None
    delay: float = 0.0
    lost: bool = False
    on_time: bool = False


@dataclass
class Network:
    """Between the operators and the API server.

    Attributes:
        draw: Which requests are struck.
        counts: Where it is counted.
        before: Rules for requests before they are carried out.
        after: Rules for their answers.
        lags: Kind → until when its watches lag, and by how many seconds.
    """

    draw: random.Random
    counts: Counts
    before: list[Rule] = field(default_factory=list)
    after: list[Rule] = field(default_factory=list)
    lags: dict[str, tuple[float, float]] = field(default_factory=dict)

    async def on_request(self, asked: Request) -> None:
        """Strike a request: a fault of the API server."""
        await asyncio.sleep(REQUEST_SECONDS)
        await self._strike(self.before, asked)

    async def on_answer(self, asked: Request, answer: object) -> None:
        """Strike an answer: an effect of the API server."""
        del answer
        await self._strike(self.after, asked)

    async def _strike(self, rules: list[Rule], asked: Request) -> None:
        now = asyncio.get_running_loop().time()
        for rule in list(rules):
            if rule.until <= now:
                rules.remove(rule)
            elif rule.matches(asked) and self.draw.random() < rule.chance:
                self.counts.inject(rule.fault)
                limit = float(asked.timeout.removesuffix("ms") or "inf") / 1000
                await asyncio.sleep(min(rule.delay, limit) if rule.on_time else rule.delay)
                if rule.on_time and rule.delay > limit:
                    raise Refusal(504, "Timeout", "the request did not complete in time")
                if rule.lost:
                    raise Lost
                if rule.refusal is not None:
                    raise rule.refusal.again()

    async def on_news(self, asked: Request) -> None:
        """Delay what a watch is sent."""
        until, seconds = self.lags.get(asked.kind, (0.0, 0.0))
        if asyncio.get_running_loop().time() < until:
            self.counts.inject(f"watch of {asked.kind} lags")
            await asyncio.sleep(seconds)
