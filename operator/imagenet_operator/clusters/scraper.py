"""Scrapes of the members of one job, within limits that no member can exceed.

A pod is not trusted: its program answers whatever it likes. So the number of connections, the time
and the length of an answer are limited, redirects are not followed, and compressed answers are
refused (`untrusted_http`). All members of a job share a time; those whose turn does not come by
then are left out.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from imagenet_operator.clusters import untrusted_http
from imagenet_operator.clusters.untrusted_http import BadAnswer, LimitExceeded
from imagenet_operator.reconcile.sample import METRICS, Asked
from imagenet_operator.reconcile.scrape import Scrape, ScrapeReader

MAX_CONNECTIONS: Final = 32
"""Members that are scraped at a time."""

TIMEOUTS_OF_JOB: Final = 5
"""The time for all members of a job, in timeouts of one member."""

NO_TIME: Final = "no time left"
"""The limit of members whose turn does not come."""


@dataclass(frozen=True)
class Target:
    """A member that serves metrics.

    Attributes:
        host: Its address.
        port: The port of its metrics.
        asked: Its role and attempt, which are known even if it does not answer.
    """

    host: str
    port: int
    asked: Asked


@dataclass
class Scrapes:
    """What the members of a job answered.

    Attributes:
        heard: Pod name → its scrape, of those with a valid answer.
        silent: The pods without one.
        left_out: Pod name → the limit that it exceeded.
        seconds: How long reading the answers took.
    """

    heard: dict[str, Scrape] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


async def scrape(members: Mapping[str, Target], timeout: float) -> Scrapes:
    """Scrape all members of a job, in an order that differs each time.

    Args:
        members: Pod name → where it serves its metrics.
        timeout: Seconds that one member may take.
    """
    found = Scrapes()
    order = list(members.items())
    random.shuffle(order)
    turns = iter(order)
    try:
        async with asyncio.timeout(timeout * TIMEOUTS_OF_JOB), asyncio.TaskGroup() as tasks:
            for _ in range(min(MAX_CONNECTIONS, len(order))):
                tasks.create_task(_work(turns, timeout, found))
    except TimeoutError:
        late = members.keys() - found.heard.keys() - found.left_out.keys() - found.silent
        found.left_out |= dict.fromkeys(late, NO_TIME)
    return found


async def _work(turns: Iterator[tuple[str, Target]], timeout: float, found: Scrapes) -> None:
    """Scrape one member after the other."""
    for pod, target in turns:
        try:
            async with asyncio.timeout(timeout):
                heard = await _scrape(target, found)
        except LimitExceeded as error:
            found.left_out[pod] = str(error)
            continue
        except (BadAnswer, TimeoutError):
            heard = None
        if heard is None:
            found.silent.add(pod)
        else:
            found.heard[pod] = heard


async def _scrape(target: Target, found: Scrapes) -> Scrape | None:
    reader = ScrapeReader(METRICS)

    def feed(piece: bytes) -> None:
        began = time.monotonic()
        reader.feed(piece)
        found.seconds += time.monotonic() - began

    await untrusted_http.get(target.host, target.port, "/metrics", feed)
    return reader.scrape()
