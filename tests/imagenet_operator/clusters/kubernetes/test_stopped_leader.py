"""A leader is stopped at every point of a job's life, and goes on when another one leads.

200 points: before the check of each write, and between its check and its sending. The times are
those of the lease divided by 20. What the stopped one still sends comes late. It may repeat the
name of a pod only if that pod's attempt has ended; the new leader deletes such a pod. A program in
it ends if a later attempt is on the volume: tests/imagenet_workloads/frameworks/mxnet/
test_training.py.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from imagenet_operator.manifests import labels
from support.asynchronous import until
from support.fake_api_server import FakeApiServer
from support.operator_harness import cluster_of, end_program, job, node, start_program
from support.paced_clock import PacedClock
from support.stopped_operators import CLOCKED, Place, Replica, Stop

Manifest = dict[str, Any]

STORIES: dict[str, Manifest] = {
    "restarted": {},
    "gated": {"schedulingPolicy": {"gang": "Wait"}},
}
"""The runPolicy of each story's job."""

WRITES = 25
"""Points of a story: its job takes more writes than that."""

AT_ONCE = 4
"""Stories that run at the same time; most of each is waiting for a lease to expire."""

PAUSE = 0.02


@dataclass(frozen=True)
class Point:
    """Where the leader is stopped; a late one goes on when the job is finished."""

    story: str
    place: Place
    is_late: bool
    number: int


POINTS = [
    Point(*parts)
    for parts in itertools.product(STORIES, Place, (False, True), range(1, WRITES + 1))
]


class World:
    """An API server, two operators, and what scheduler and kubelet do.

    An operator that ends is followed by another one, as the kubelet does it.
    """

    def __init__(self, server: FakeApiServer, stop: Stop, clock: PacedClock) -> None:
        self.server = server
        self.stop = stop
        self.clock = clock
        self.replicas: list[Replica] = []

    @property
    def status(self) -> Manifest:
        # No copy, as it is read often.
        found = self.server.storage.objects.get(("ImageNetJob", "vision", "digits"), {})
        return dict(found.get("status") or {})

    def is_finished(self) -> bool:
        return self.status.get("phase") == "Succeeded"

    def another_leads(self) -> bool:
        return any(item.leads for item in self.replicas if item is not self.stop.stopped)

    async def live(self) -> None:
        version = 0
        while True:
            alive = sum(item.is_alive for item in self.replicas)
            for _ in range(alive, 2):
                self.replicas.append(Replica(self.server.url, self.stop, self.clock))
            if version != self.server.version:
                version = self.server.version
                for pod in self.server.all("Pod"):
                    await self._live(pod, self.status)
            await asyncio.sleep(PAUSE)

    async def _live(self, pod: Manifest, status: Manifest) -> None:
        """Let a pod run; in the first attempt worker-1 fails, in the next one all succeed."""
        name, phase = pod["metadata"]["name"], pod["status"]["phase"]
        attempt = int(pod["metadata"]["labels"][labels.ATTEMPT])
        if "deletionTimestamp" in pod["metadata"]:
            await self.server.remove("Pod", name)
        elif phase == "Pending" and not pod["spec"].get("schedulingGates"):
            await self.server.change("Pod", name, _start)
        elif phase == "Pending" and "conditions" not in pod["status"]:
            await self.server.change("Pod", name, _hold_back)
        elif phase == "Running" and status.get("phase") == "Running":
            fails = attempt == 0 and name.endswith("worker-1")
            if status["training"]["attempt"] == attempt and (fails or attempt > 0):
                await self.server.change("Pod", name, lambda item: end_program(item, int(fails)))

    async def go_on(self) -> None:
        """Release the operator that was stopped, and wait until nothing of it is on its way."""
        stopped = self.stop.stopped
        assert stopped is not None
        self.stop.released.set()
        await until(lambda: not stopped.is_alive, PAUSE)

    async def end(self) -> None:
        self.stop.released.set()
        for item in self.replicas:
            item.end()
        await until(lambda: not any(item.is_alive for item in self.replicas), PAUSE)


def _start(pod: Manifest) -> None:
    start_program(pod, "n1", "10.0.0.1")


def _hold_back(pod: Manifest) -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod["status"]["conditions"] = [gated]


def attempts_of_pods(server: FakeApiServer) -> Iterator[tuple[str, Manifest, bool]]:
    """Yield what happened to pods: the event, the pod, whether its attempt had ended by then."""
    ended = -1
    for _, event, item in server.storage.after(0):
        if item["kind"] == "ImageNetJob":
            training = (item.get("status") or {}).get("training") or {}
            if training:
                ended = training["attempt"] - (not training.get("outcome"))
        elif item["kind"] == "Pod":
            yield event, item, int(item["metadata"]["labels"][labels.ATTEMPT]) <= ended


def late_pods(server: FakeApiServer) -> dict[str, str]:
    return {
        pod["metadata"]["uid"]: pod["metadata"]["name"]
        for event, pod, had_ended in attempts_of_pods(server)
        if event == "ADDED" and had_ended
    }


async def tell(point: Point, clock: PacedClock) -> dict[str, str]:
    stop = Stop(point.place, point.number)
    async with cluster_of(node("n1")) as server:
        world = World(server, stop, clock)
        life = asyncio.create_task(world.live())
        try:
            await server.add(job(run_policy=STORIES[point.story]))
            await until(stop.happened.is_set, PAUSE)
            await until(world.another_leads, PAUSE)
            if point.is_late:
                await until(world.is_finished, PAUSE)
            await world.go_on()
            await until(world.is_finished, PAUSE)
            late = late_pods(server)
            await until(lambda: not late.keys() & uids(server), PAUSE)
        finally:
            life.cancel()
            await world.end()
        assert stop.stopped is not None
        assert stop.stopped.fence.admitted_late == 0
        names = [
            pod["metadata"]["name"]
            for event, pod, _ in attempts_of_pods(server)
            if event == "ADDED" and pod["metadata"]["uid"] not in late
        ]
        assert len(names) == len(set(names))
        return late


def uids(server: FakeApiServer) -> set[str]:
    return {pod["metadata"]["uid"] for pod in server.all("Pod")}


GROUPS = [POINTS[first :: len(POINTS) // WRITES] for first in range(len(POINTS) // WRITES)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PacedClock:
    made = PacedClock()
    for module in CLOCKED:
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.costly
@pytest.mark.parametrize("points", GROUPS, ids=range(len(GROUPS)))
def test_no_pod_is_created_twice_wherever_the_leader_is_stopped(
    points: list[Point], clock: PacedClock
) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(point: Point) -> None:
        async with turns:
            late = await tell(point, clock)
        print(point, sorted(late.values()))

    async def all_of_them() -> None:
        async with clock.running():
            await asyncio.gather(*map(one, points))

    asyncio.run(all_of_them())
