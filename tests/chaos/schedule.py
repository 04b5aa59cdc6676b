"""One schedule: two jobs, one or two operators, and faults at times that its seed draws.

Faults begin in the first four minutes. After the last one everything is repaired, the jobs have to
end in time and rightly, and then nothing may be written any more. All of it takes place in virtual
time, over real connections: the real client, reflectors, caches, queue, reconciler and recorder,
and the fake API server in the same event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import random
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp

from chaos.counts import Counts
from chaos.faults import ALL, BLINDING, SEEN_BESIDE_KUEUE, Fault
from chaos.invariants import Invariants, Violated
from chaos.jobs import JobDraw, draw_job
from chaos.network import WRITES, Network
from chaos.operators import RunningOperator
from chaos.queue_controller import QueueController
from chaos.world import ChaosCluster
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.configuration import parse
from imagenet_operator.reconcile.decide import is_finished
from support import simulated_queue, virtual_time
from support.fake_api_server import FakeApiServer
from support.operator_harness import claim
from support.simulated_objects import true_ends
from support.simulated_queue import QUEUE
from support.simulated_world import START

Manifest = dict[str, Any]
FAULTS_SECONDS = 240.0
END_SECONDS = 2400.0
"""How long the jobs may take after the last fault."""

CLEAN_UP_SECONDS = 150.0
"""How long an operator may clean up after the last job has ended."""

REST_SECONDS = 330.0
"""How long nothing may be written after that, in every fourth schedule."""

BOOKMARK_SECONDS = 50.0
LOOK_SECONDS = 60.0
DISRUPTION_LIMIT = 12


@dataclass(frozen=True)
class Plan:
    """What a seed draws.

    Attributes:
        seed: The seed.
        operators: How many there are.
        has_lease: Whether one of them acts at a time, as the holder of a Lease.
        places: How many pods fit on a node.
        jobs: The jobs.
        faults: When each fault begins, in seconds, and which it is.
        has_queues: Whether Kueue holds, admits and evicts the jobs that have a queue.
    """

    seed: int
    operators: int
    has_lease: bool
    places: int
    jobs: tuple[JobDraw, ...]
    faults: tuple[tuple[float, Fault], ...]
    has_queues: bool = False


def draw(
    seed: int,
    kinds_of_faults: Sequence[Fault] = ALL,
    operators: Sequence[int] = (1, 1, 2),
    leases: Sequence[bool] = (True, True, True, True, False),
    strategy: str | None = None,
) -> Plan:
    """Return the plan of a seed.

    Args:
        seed: The seed.
        kinds_of_faults: What is drawn from.
        operators: From which numbers of operators it is drawn.
        leases: From which it is drawn whether they have a Lease. Operators without one are of a
            former release; they may run beside each other.
        strategy: That of the first job; None to draw it too.
    """
    drawn = random.Random(seed)
    return Plan(
        seed=seed,
        operators=drawn.choice(operators),
        has_lease=drawn.choice(leases),
        places=drawn.choice([2, 6, 6]),
        jobs=(draw_job("digits", drawn, strategy), draw_job("other", drawn)),
        faults=tuple(
            sorted(
                (
                    (drawn.uniform(0, FAULTS_SECONDS), drawn.choice(kinds_of_faults))
                    for _ in range(drawn.randint(6, 14) if kinds_of_faults else 0)
                ),
                key=lambda item: item[0],
            )
        ),
    )


def queued(plan: Plan) -> Plan:
    """Return a plan with its first job in a queue, and in every other one the second one too.

    Their gangs time out before most of them are admitted, if that time counts.
    """

    def with_queue(drawn: JobDraw) -> JobDraw:
        gang = {**drawn.policy["schedulingPolicy"], "scheduleTimeoutSeconds": 15}
        return replace(drawn, labels=QUEUE, policy={**drawn.policy, "schedulingPolicy": gang})

    first, second = plan.jobs
    jobs = (with_queue(first), second if plan.seed % 2 else with_queue(second))
    return replace(plan, jobs=jobs, has_queues=True)


@dataclass
class Outcome:
    """What became of a schedule."""

    counts: Counts
    violations: list[Violated]


@dataclass
class Story:
    """A schedule while it is played.

    Attributes:
        draw: Everything that is decided on the way.
        server: The API server.
        cluster: What happens in the cluster.
        network: What happens to requests.
        invariants: The checks.
        counts: What was injected.
        queues: Kueue, which acts only in a plan that has queues.
        operators: The operators.
    """

    plan: Plan
    draw: random.Random
    server: FakeApiServer
    cluster: ChaosCluster
    network: Network
    invariants: Invariants
    counts: Counts
    queues: QueueController
    operators: list[RunningOperator] = field(default_factory=list)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time()

    def jobs(self) -> list[Manifest]:
        """The jobs that are stored."""
        stored = self.server.storage.objects
        return [item for (kind, _, _), item in stored.items() if kind == objects.JOB.name]

    def change_job(self, job: Manifest, **policy: Any) -> None:
        """Change a job's runPolicy, as its user does."""
        stored = self.server.storage.objects[objects.JOB.name, "vision", job["metadata"]["name"]]
        stored["spec"].setdefault("runPolicy", {}).update(policy)
        stored["metadata"]["generation"] += 1
        self.server.storage.store("MODIFIED", stored)

    # ------------------------------------------------------------------ the parts

    async def play(self) -> None:
        """Play the schedule from beginning to end."""
        storage = self.server.storage
        self.invariants.statuses.sees_nodes = not BLINDING.intersection(
            fault for _, fault in self.plan.faults
        )
        self.cluster.add_nodes()
        storage.create(claim())
        storage.create(claim(name="raw"))
        configuration = parse(
            {
                "sampler": {"enabled": False},
                "podDisruptionBudget": True,
                "restarts": {"disruptionLimit": DISRUPTION_LIMIT},
            },
            "chaos",
        )
        for number in range(self.plan.operators):
            self.operators.append(
                RunningOperator(
                    f"operator-{number}",
                    self.server.url,
                    configuration,
                    self.clock,
                    has_lease=self.plan.has_lease,
                )
            )
        async with self._beside():
            await self._strike()
            await self._calm_down()
            await self._end()
        for operator in self.operators:
            self.counts.injections["lease lost"] += operator.lost_leases
            await operator.end()
        self.counts.injections = +self.counts.injections

    def clock(self) -> datetime:
        """The true time."""
        return START + timedelta(seconds=self.now)

    @contextlib.asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self.cluster.run()),
            asyncio.create_task(self._bookmark()),
            asyncio.create_task(self._look()),
            asyncio.create_task(self._apply_jobs()),
        ]
        if self.plan.has_queues:
            tasks.append(asyncio.create_task(self.queues.run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(found, Exception):
                    raise found

    async def _apply_jobs(self) -> None:
        for item in self.plan.jobs:
            await asyncio.sleep(item.delay)
            self.cluster.add_job(item.manifest(), item.size)

    async def _bookmark(self) -> None:
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS)
            await self.server.bookmark()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.invariants.look()

    async def _strike(self) -> None:
        """Let each fault strike at its time, and wait until all are over."""

        async def one(at: float, fault: Fault) -> None:
            await asyncio.sleep(at)
            await fault(self)

        async with asyncio.TaskGroup() as tasks:
            for at, fault in self.plan.faults:
                tasks.create_task(one(at, fault))

    async def _calm_down(self) -> None:
        """Repair what is still broken."""
        self.network.before.clear()
        self.network.after.clear()
        self.network.lags.clear()
        self.queues.evicts = self.queues.is_away = False
        for job in self.jobs():
            if job["spec"].get("runPolicy", {}).get("suspend"):
                self.change_job(job, suspend=False)

    async def _end(self) -> None:
        end = self.now + END_SECONDS
        while len(found := self.jobs()) < len(self.plan.jobs) or not all(map(self._is_over, found)):
            if self.now > end:
                left = [item for item in found if not self._is_over(item)]
                for item in left:
                    self.invariants.expect("right end", False, _said(item))
                return
            await asyncio.sleep(5)
        for item in found:
            self.invariants.expect("right end", True, "")
            self.invariants.statuses.check_end(item)
            (how,) = true_ends(self.cluster.status_of(item))
            self.counts.ends[how] += 1
        await asyncio.sleep(CLEAN_UP_SECONDS)
        if self.plan.seed % 4 == 0:
            await self._rest()

    async def _rest(self) -> None:
        """Check that the operators write nothing once they have cleaned up."""
        before = len(self.server.requests)
        await asyncio.sleep(REST_SECONDS)
        writes = [
            asked
            for asked in self.server.requests[before:]
            if asked.verb in WRITES and asked.kind != objects.LEASE.name
        ]
        self.invariants.expect("rest", not writes, f"{len(writes)} writes, as {writes[:1]}")

    def _is_over(self, job: Manifest) -> bool:
        return is_finished(self.cluster.status_of(job))


def _said(job: Manifest) -> str:
    status = job.get("status") or {}
    said = [
        f"{item['type']}={item['status']} {item['message']}"
        for item in status.get("conditions", ())
    ]
    return f"{job['metadata']['name']} has not ended: {said}"


def run(plan: Plan) -> Outcome:
    """Play a schedule in virtual time."""
    random.seed(plan.seed)

    async def story(loop: virtual_time.VirtualTimeLoop) -> Outcome:
        del loop
        drawn, counts = random.Random(plan.seed + 1), Counts(schedules=1)
        with tempfile.TemporaryDirectory() as folder:
            socket = Path(folder) / "api"
            connector = functools.partial(aiohttp.UnixConnector, str(socket))
            with mock.patch.object(aiohttp, "TCPConnector", connector):
                async with FakeApiServer(socket=socket) as server:
                    invariants = await _play(plan, drawn, counts, server)
        counts.requests = len(server.requests)
        counts.struck.update(counts.injections.keys())
        counts.checks = invariants.checks
        counts.growths = invariants.statuses.growths
        counts.violations.update(found.invariant for found in invariants.violations)
        return Outcome(counts, invariants.violations)

    gc.disable()
    try:
        return virtual_time.run(story)
    finally:
        gc.enable()


async def _play(
    plan: Plan, drawn: random.Random, counts: Counts, server: FakeApiServer
) -> Invariants:
    slots = dict.fromkeys("abc", plan.places)
    cluster = ChaosCluster(server.storage, random.Random(plan.seed + 2), slots)
    network = Network(drawn, counts)
    invariants = Invariants(cluster, DISRUPTION_LIMIT, has_lease=plan.has_lease)
    cluster.check_start = invariants.check_start
    server.storage.clock = cluster.now
    server.storage.new_uid = lambda: str(uuid.UUID(int=drawn.getrandbits(128)))
    server.storage.observers.append(invariants.observe)
    server.faults += [invariants.arrived, network.on_request]
    server.effects += [invariants.answered, network.on_answer]
    server.delay_news = network.on_news
    is_seen = {fault for _, fault in plan.faults}.issubset(SEEN_BESIDE_KUEUE)
    queues = QueueController(cluster, random.Random(plan.seed + 3), counts, is_seen)
    if plan.has_queues:
        server.storage.webhook = simulated_queue.hold
    await Story(plan, drawn, server, cluster, network, invariants, counts, queues).play()
    return invariants
