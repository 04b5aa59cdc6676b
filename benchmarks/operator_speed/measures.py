"""What is measured, one function a question; each begins and ends with no job in the namespace.

Only `at_scale` leaves its jobs behind: it is the last one.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.operator_speed import jobs, kwok_cluster
from benchmarks.operator_speed.pod_watch import Pods, watched_pods

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.manifests import attempt, names
from imagenet_spec.resource import ImageNetJob
from kind.cluster import Cluster

_PORT = 18080
_TIMEOUT_SECONDS = 300.0
_QUIET_SECONDS = 10.0
# The scheduler binds 50 pods a second; a gang that waits longer for it than its timeout, in a queue
# of thousands, would make room for others.
_WAVE = 200
_REQUESTS = "imagenet_operator_api_requests_total"
_RENEWALS = "imagenet_operator_lease_writes_total"
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Bench:
    """Where everything is.

    Attributes:
        cluster: The kind cluster.
        client: Of its API server.
        folder: For logs.
    """

    cluster: Cluster
    client: Client
    folder: Path

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[kwok_cluster.OperatorProcess]:
        """Run an operator and wait until it leads."""
        with kwok_cluster.operator(self.cluster, self.folder, _PORT) as process:
            await until(process.leads, 120)
            yield process


@dataclass
class Scale:
    """What was measured with many jobs running.

    Attributes:
        created_seconds: From the first job's creation until all pods ran, wave by wave.
        steady_megabytes: The operator's memory then.
        restart_seconds: From the start of the operator's process until the pods of a job exist
            that was created while there was no operator, for each restart.
        looked_seconds: Likewise, until every job has been looked at.
        megabytes: Memory after that, and at most.
        writes_per_hour: Writes while nothing happens, but those of the lease.
        renewals_per_hour: Writes of the lease.
        reads_per_hour: Other requests, the watches' renewals among them.
        cpu_per_hour: Processor seconds.
        recovery_seconds: From a worker's death until all members of the next attempt run.
    """

    created_seconds: float = 0.0
    steady_megabytes: float = 0.0
    restart_seconds: list[float] = field(default_factory=list)
    looked_seconds: list[float] = field(default_factory=list)
    megabytes: tuple[float, float] = (0.0, 0.0)
    writes_per_hour: float = 0.0
    renewals_per_hour: float = 0.0
    reads_per_hour: float = 0.0
    cpu_per_hour: float = 0.0
    recovery_seconds: list[float] = field(default_factory=list)


async def burst(bench: Bench, count: int) -> tuple[float, float]:
    """Create many jobs at once; return the seconds until all their pods exist, and the CPU's."""
    async with bench.operator() as operator, watched_pods(bench.client) as pods:
        spent = operator.cpu_seconds()
        began = time.monotonic()
        creating = asyncio.create_task(
            jobs.create(bench.client, (jobs.job(f"burst-{number}") for number in range(count)))
        )
        await pods.until(lambda seen: len(seen) == count * jobs.PODS_PER_JOB, _TIMEOUT_SECONDS)
        seconds = time.monotonic() - began
        spent = operator.cpu_seconds() - spent
        await creating
    await _clear(bench)
    return seconds, spent


async def floor(bench: Bench, count: int) -> float:
    """Do without an operator what it does: create the same objects, knowing beforehand which."""
    async with watched_pods(bench.client) as pods:
        seconds = await _bare_loop(bench, pods, [f"burst-{number}" for number in range(count)])
    await _clear(bench)
    return seconds


async def single(bench: Bench, runs: int) -> list[tuple[float, float]]:
    """Create one job at a time, by a bare loop and by the operator in turn.

    Returns:
        For each two the seconds until all pods existed, by the bare loop and by the operator.
    """
    found = []
    async with bench.operator() as operator, watched_pods(bench.client) as pods:
        for number in range(runs):
            await _quiet(operator, 1.0)
            bare = await _bare_loop(bench, pods, [f"bare-{number}"])
            await pods.until(_all_run, _TIMEOUT_SECONDS)
            await _quiet(operator, 1.0)
            began = time.monotonic()
            wanted = len(pods) + jobs.PODS_PER_JOB
            await jobs.create(bench.client, [jobs.job(f"single-{number}")])
            await pods.until(lambda seen, wanted=wanted: len(seen) == wanted, _TIMEOUT_SECONDS)  # type: ignore[misc]
            found.append((bare, time.monotonic() - began))
            await pods.until(_all_run, _TIMEOUT_SECONDS)
    await _clear(bench)
    return found


async def _bare_loop(bench: Bench, pods: Pods, created: Sequence[str]) -> float:
    """Create jobs of another controller and their objects; return the seconds until pods exist."""
    wanted = len(pods) + len(created) * jobs.PODS_PER_JOB
    began = time.monotonic()
    stored = await jobs.create(
        bench.client, (jobs.job(name, jobs.OTHER_CONTROLLER) for name in created)
    )
    built = [attempt.build(ImageNetJob.model_validate(item), 0) for item in stored]
    creating = asyncio.create_task(
        jobs.create(bench.client, (item for manifests in built for item in manifests))
    )
    await pods.until(lambda seen: len(seen) == wanted, _TIMEOUT_SECONDS)
    seconds = time.monotonic() - began
    await creating
    return seconds


async def at_scale(bench: Bench, count: int, restarts: int, idle_seconds: float) -> Scale:
    """Have many jobs running, and measure what that costs the operator."""
    found = Scale()
    async with watched_pods(bench.client) as pods:
        async with bench.operator() as operator:
            began = time.monotonic()
            for first in range(0, count, _WAVE):
                await _run_many(bench, pods, range(first, min(first + _WAVE, count)))
            found.created_seconds = time.monotonic() - began
            await _quiet(operator, _QUIET_SECONDS)
            found.steady_megabytes = operator.megabytes()[0]
        for number in range(restarts):
            await _restart(bench, pods, found, f"late-{number}", count + number)
        async with bench.operator() as operator:
            await _quiet(operator, _QUIET_SECONDS)
            await _idle(operator, found, idle_seconds)
            for number in range(restarts):
                found.recovery_seconds.append(await _lose_a_worker(bench, pods, f"job-{number}"))
    return found


async def _run_many(bench: Bench, pods: Pods, numbers: Sequence[int]) -> None:
    """Create jobs and wait until all pods run."""
    wanted = len(pods) + len(numbers) * jobs.PODS_PER_JOB
    await jobs.create(bench.client, (jobs.job(f"job-{number}") for number in numbers))
    await pods.until(lambda seen: len(seen) == wanted and _all_run(seen), _TIMEOUT_SECONDS)


async def _restart(bench: Bench, pods: Pods, found: Scale, late: str, known: int) -> None:
    """Start an operator that finds many running jobs, and one new job."""
    await jobs.create(bench.client, [jobs.job(late)])
    with kwok_cluster.operator(bench.cluster, bench.folder, _PORT) as operator:
        await pods.until(lambda seen: seen.existing[late] == jobs.PODS_PER_JOB, _TIMEOUT_SECONDS)
        found.restart_seconds.append(time.monotonic() - operator.started)

        def has_looked_at_all() -> bool:
            told = operator.metrics()
            return (
                told["imagenet_operator_passes_total"] > known
                and not told["imagenet_operator_queue_depth"]
            )

        await until(has_looked_at_all, _TIMEOUT_SECONDS)
        found.looked_seconds.append(time.monotonic() - operator.started)
        await pods.until(_all_run, _TIMEOUT_SECONDS)
        await _quiet(operator, _QUIET_SECONDS)
        found.megabytes = max(found.megabytes, operator.megabytes())


async def _idle(operator: kwok_cluster.OperatorProcess, found: Scale, seconds: float) -> None:
    """Watch the operator doing nothing."""
    before, spent = operator.metrics(), operator.cpu_seconds()
    await asyncio.sleep(seconds)
    after, spent = operator.metrics(), operator.cpu_seconds() - spent
    writes = _writes(after) - _writes(before)
    renewals = after[_RENEWALS] - before[_RENEWALS]
    others = after[_REQUESTS] - before[_REQUESTS] - writes - renewals
    found.writes_per_hour = writes * 3600 / seconds
    found.renewals_per_hour = renewals * 3600 / seconds
    found.reads_per_hour = others * 3600 / seconds
    found.cpu_per_hour = spent * 3600 / seconds


async def _lose_a_worker(bench: Bench, pods: Pods, job: str) -> float:
    """Let a worker be killed; return the seconds until all members of the next attempt run."""
    pod = names.member(job, 0, "worker", 1)
    killed = {"exitCode": 137, "reason": "Error"}
    status = {"name": names.CONTAINER, "state": {"terminated": killed}}
    died = {"status": {"phase": "Failed", "containerStatuses": [status]}}
    members = [
        *(names.member(job, 1, role, index) for role in ("server", "worker") for index in (0, 1)),
        names.member(job, 1, "scheduler", 0),
    ]
    began = time.monotonic()
    await bench.client.merge(f"{objects.POD.path(jobs.NAMESPACE, pod)}/status", died)
    await pods.until(lambda seen: all(map(seen.is_running, members)), _TIMEOUT_SECONDS)
    return time.monotonic() - began


async def _clear(bench: Bench) -> None:
    """Delete all jobs, and wait until nothing of them is left."""
    await jobs.delete_all(bench.client)
    async with watched_pods(bench.client) as pods:
        await pods.until(lambda seen: len(seen) == 0, _TIMEOUT_SECONDS)
    # The garbage collector has a look at everything that had an owner.
    await asyncio.sleep(_QUIET_SECONDS)


async def _quiet(operator: kwok_cluster.OperatorProcess, seconds: float) -> None:
    """Wait until the operator has written nothing for a while, and no job waits for it.

    With many jobs there always is one whose turn it is to be looked at, without being changed.
    """
    began = last = time.monotonic()
    count = -1.0
    while time.monotonic() - last < seconds:
        if time.monotonic() - began > _TIMEOUT_SECONDS:
            raise SystemExit(f"the operator does not come to rest in {_TIMEOUT_SECONDS:.0f} s")
        told = operator.metrics()
        if told["imagenet_operator_queue_depth"] or _writes(told) != count:
            count, last = _writes(told), time.monotonic()
        await asyncio.sleep(0.2)


def _writes(told: Mapping[str, float]) -> float:
    """Return the writes but those of the lease, which go on while nothing happens."""
    return -told[_RENEWALS] + sum(told.get(f"{_REQUESTS}/{verb}", 0) for verb in _WRITES)


async def until(satisfied: Callable[[], bool], seconds: float) -> None:
    """Poll until a condition holds.

    Raises:
        TimeoutError: It did not come.
    """
    async with asyncio.timeout(seconds):
        while not satisfied():
            await asyncio.sleep(0.05)


def _all_run(pods: Pods) -> bool:
    return pods.running == len(pods)


def median(values: Sequence[float]) -> float:
    """Return the middle one."""
    return statistics.median(values)
