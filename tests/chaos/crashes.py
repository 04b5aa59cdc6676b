"""The operator dies after every single write of a job's life: enumerated, not drawn.

A life is a job with one crash and one eviction, and nothing else that goes wrong. It is played once
to count the operator's writes. Then it is played once for each of them: the process dies when that
write has had its effect, before it has the answer, and what it had sent beside it is lost. Another
process takes its place. All invariants of the schedules hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos import schedule
from chaos.jobs import ELASTIC, JobDraw
from chaos.network import WRITES
from chaos.schedule import Outcome, Plan, Story
from chaos.world import JobWorld
from imagenet_operator.clusters.kubernetes import objects
from support.api_requests import Lost, Request
from support.job_table import BUCKET, OWN_PROGRAM, TFRECORD
from support.simulated_objects import Manifest, attempt_of, is_terminating

RESTART_SECONDS = 2.0
LIFE_SECONDS = 1800.0
"""How long the first attempts of a job may take to run."""

_POLICY = {"backoffLimit": 3, "schedulingPolicy": {"scheduleTimeoutSeconds": 120}}
_SHARED = {"volume": {"claimName": "shared"}}
_TENSORFLOW: dict[str, Any] = {"training": {"framework": "TensorFlow"}, "dataset": TFRECORD}
_PYTORCH = {"framework": "PyTorch"}


def _job(strategy: str, name: str = "digits", *, is_prepared: bool = True, **parts: Any) -> JobDraw:
    delay = 0.0 if name == "digits" else 1.0
    return JobDraw(name, strategy, is_prepared, _POLICY, 0, delay, **parts)


SHORT: dict[str, tuple[JobDraw, ...]] = {
    "own program": (_job("horovod", training=OWN_PROGRAM),),
    "parameterServer": (_job("servers", is_prepared=False),),
    "elastic": (_job(ELASTIC),),
}
"""The lives of `make test`."""

LONG: dict[str, tuple[JobDraw, ...]] = {
    "single": (_job("single"),),
    "horovod": (_job("horovod", is_prepared=False),),
    "multiWorkerMirrored": (_job("multiWorkerMirrored", **_TENSORFLOW),),
    "mirrored": (_job("mirrored", **_TENSORFLOW),),
    "distributedDataParallel": (_job("distributedDataParallel", training=_PYTORCH),),
    "publish": (_job("single", is_prepared=False, dataset={"publish": {"s3": BUCKET}}),),
    "upload": (_job("single", training={"output": {"upload": {"s3": BUCKET}}}),),
    "shared dataset": (
        _job("single", is_prepared=False, dataset=_SHARED),
        _job("single", "other", is_prepared=False, dataset=_SHARED),
    ),
}
"""The further lives of `make chaos`."""

LIVES = {**SHORT, **LONG}
"""All lives."""


@dataclass
class _Writes:
    """Counts the operator's writes, and kills it after one of them.

    Attributes:
        story: The schedule.
        last: After which write; None for none.
        count: How many there were.
        dead: The sender that was killed.
    """

    story: Story
    last: int | None
    count: int = 0
    dead: str | None = None

    async def carried_out(self, asked: Request, answer: Manifest) -> None:
        """Count a write that has had its effect: an effect of the API server."""
        del answer
        if asked.verb not in WRITES or asked.kind == objects.LEASE.name:
            return
        self.count += 1
        if self.count == self.last:
            (operator,) = self.story.operators
            self.dead = asked.sender
            operator.kill()
            self.story.counts.inject("operator killed after a write")
            asyncio.get_running_loop().call_later(RESTART_SECONDS, operator.start)

    async def arrived(self, asked: Request) -> None:
        """Lose what a process that is dead had sent: a fault of the API server."""
        if asked.sender == self.dead:
            raise Lost


async def _live(story: Story) -> None:
    """Let a worker crash in the first attempt, and a pod or node go in the next one."""

    async def until(holds: Callable[[], bool]) -> None:
        """Wait for the cluster, which takes a step every few seconds of virtual time."""
        while not holds():
            assert story.now < LIFE_SECONDS, "the job does not get there"
            await asyncio.sleep(1)

    await until(lambda: bool(story.cluster.worlds))
    world = next(iter(story.cluster.worlds.values()))
    # A drained node has to come back while an elastic job trains.
    world.seconds = 240 if world.is_elastic else 10
    # Of an attempt whose creation was cut off, not all members come.
    await until(lambda: world.whole(world.newest))
    first = world.newest
    world.exit(_last_worker(world, first), 1)
    await until(lambda: world.newest > first and world.whole(world.newest))
    last = _last_worker(world, world.newest)
    if world.is_elastic:
        await story.cluster.drain_node(last["spec"]["nodeName"], 60)
    else:
        world.evict(last)


def _last_worker(world: JobWorld, number: int) -> Manifest:
    pods = [item for item in world.members() if attempt_of(item) == number]
    return [item for item in pods if not is_terminating(item)][-1]


def play(jobs: tuple[JobDraw, ...], last: int | None = None) -> tuple[Outcome, int]:
    """Play a life; return what became of it, and how many writes the operator made.

    Args:
        jobs: The jobs; the first one has the crash and the eviction.
        last: After which write the operator dies; None for never.
    """
    found: list[_Writes] = []

    async def watched(story: Story) -> None:
        writes = _Writes(story, last)
        found.append(writes)
        story.server.effects.append(writes.carried_out)
        story.server.faults.append(writes.arrived)
        await _live(story)

    # An elastic job needs all places for all of its workers.
    places = 2 if jobs[0].strategy == ELASTIC else 6
    plan = Plan(1, 1, True, places, jobs, ((0.0, watched),))
    outcome = schedule.run(plan)
    return outcome, found[0].count


def play_all(jobs: tuple[JobDraw, ...], part: int = 0, parts: int = 1) -> list[str]:
    """Play a life with a crash after each of its writes, and without; return what was violated.

    Args:
        jobs: The jobs.
        part: Which of the parts to play, from 0.
        parts: Into how many parts the writes are divided.
    """
    outcome, writes = play(jobs)
    found = _violated(outcome, len(jobs), "without a crash")
    for last in range(1 + part, writes + 1, parts):
        outcome, _ = play(jobs, last)
        found += _violated(outcome, len(jobs), f"after write {last} of {writes}")
    return found


def _violated(outcome: Outcome, jobs: int, when: str) -> list[str]:
    ends = [] if outcome.counts.ends == {"Succeeded": jobs} else [f"ends: {outcome.counts.ends}"]
    return [f"{when}: {item}" for item in [*outcome.violations, *ends]]
