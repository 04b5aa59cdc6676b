"""The clock that people set may move: the lease goes by the monotonic one alone."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, tzinfo

import pytest

from imagenet_operator.clusters.kubernetes import leader_election
from support.asynchronous import asynchronous, until
from support.candidates import LONG, SHORT, asked, candidate, spec, tries
from support.fake_api_server import FakeApiServer


class WallClock:
    """The clock that people set; it stands in for `datetime.datetime` and `time.time`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._time, self.ahead = time.time, 0.0
        patch.setattr(leader_election, "datetime", self)
        patch.setattr(time, "time", self.time)

    def time(self) -> float:
        return self._time() + self.ahead

    def now(self, zone: tzinfo) -> datetime:
        return datetime.fromtimestamp(self.time(), zone)


def renewed_at(server: FakeApiServer) -> datetime:
    return datetime.fromisoformat(spec(server)["renewTime"])


@pytest.mark.parametrize("seconds", [3601, -3601], ids=["forwards", "backwards"])
@asynchronous
async def test_a_wall_clock_that_moves_by_an_hour_changes_no_leader(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = WallClock(monkeypatch)
    async with FakeApiServer() as server, candidate(server) as first:
        await until(lambda: first.leads)
        async with candidate(server) as second:
            await tries(server)
            before = renewed_at(server)
            wall.ahead = seconds
            await until(lambda: abs(renewed_at(server) - before) > timedelta(seconds=3500))
            await tries(server)
            renewals = asked(server, "update")
            await until(lambda: asked(server, "update") >= renewals + 3)
            assert (first.leads, second.leads) == (True, False)
            assert first.fence.seconds_left() > LONG.quiet / 2


@pytest.mark.parametrize("seconds", [3601, -3601], ids=["forwards", "backwards"])
@asynchronous
async def test_a_killed_leader_is_followed_after_its_last_request_whatever_the_wall_clock_says(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = WallClock(monkeypatch)
    async with FakeApiServer() as server, candidate(server, times=SHORT) as first:
        await until(lambda: first.leads)
        async with candidate(server, times=SHORT) as second:
            await tries(server)
            await first.stop()
            wall.ahead = seconds
            await until(lambda: second.leads)
            assert first.fence.seconds_left() == 0
