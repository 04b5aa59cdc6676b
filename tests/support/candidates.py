"""Processes that want to lead, before a fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes.client import Client, Fence, LeaseTimes
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection, LeaseLost
from imagenet_operator.clusters.kubernetes.login import Connection
from support.asynchronous import until
from support.fake_api_server import FakeApiServer

Manifest = dict[str, Any]

WHERE = "kube-system"
ALL = "imagenet-operator"
VISION = "imagenet-operator.vision"
SHORT = LeaseTimes(duration=0.75, renew_deadline=0.5, retry_period=0.1)
"""The times divided by 20."""

LONG = LeaseTimes(duration=3600, renew_deadline=3000, retry_period=0.01)
"""The times of a Lease that never expires in a test."""


@dataclass
class Candidate:
    """A process that wants to lead.

    Attributes:
        election: Its part in the election.
        fence: What it may send by.
        work: Acquires the Leases, then renews them.
    """

    election: LeaderElection
    fence: Fence
    work: asyncio.Task[None]

    @property
    def leads(self) -> bool:
        return self.election.is_leader

    async def stop(self) -> None:
        """End it as SIGKILL does."""
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)

    async def loss(self) -> str:
        """Wait until it gives up, and return why."""
        with pytest.raises(LeaseLost) as caught:
            await self.work
        assert not self.leads
        assert self.fence.seconds_left() == 0
        return str(caught.value)


@asynccontextmanager
async def candidate(
    server: FakeApiServer, *watched: str, times: LeaseTimes = LONG
) -> AsyncIterator[Candidate]:
    fence = Fence(times)
    async with Client(Connection(server.url)) as client:
        election = LeaderElection(client, WHERE, watched, fence, times)

        async def run() -> None:
            await election.acquire()
            await election.hold()

        made = Candidate(election, fence, asyncio.create_task(run()))
        try:
            yield made
        finally:
            await made.stop()


def spec(server: FakeApiServer, name: str = ALL) -> Manifest:
    found = server.get("Lease", name, WHERE)
    return {} if found is None else dict(found["spec"])


def asked(server: FakeApiServer, verb: str) -> int:
    """How often something was asked of the Leases."""
    return server.counts()[verb, "Lease"]


async def tries(server: FakeApiServer, count: int = 3) -> None:
    """Wait until whoever waits has asked a few times more."""
    before = asked(server, "list")
    await until(lambda: asked(server, "list") >= before + count)
