"""The whole operator against the fake API server, with kopf or told of the jobs directly.

`settle` waits until nothing is left to do: every cache has heard of everything that is stored, and
the work queue is empty. It waits for states, never for time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from imagenet_operator import handlers
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import Client, Fence, LeaseTimes
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_operator.configuration import parse
from support import job_table
from support.asynchronous import until
from support.fake_api_server import FakeApiServer
from support.simulated_world import FINISHED

Manifest = dict[str, Any]
QUICK = {
    "sampler": {"enabled": False},
    "restarts": {"delaySeconds": 0, "disruptionDelaySeconds": 0},
}
"""A configuration without waits."""

FIRST = [
    f"digits-r0-{member}"
    for member in ("scheduler-0", "server-0", "server-1", "worker-0", "worker-1")
]
"""The members of the first attempt."""

SECOND = [name.replace("-r0-", "-r1-") for name in FIRST]
"""The members of the next one."""


def job(name: str = "digits", **parts: Any) -> Manifest:
    """A job as a user applies it: one scheduler, two servers, two workers, a prepared dataset."""
    built = job_table.manifest(name=name, dataset={"source": job_table.PREPARED}, **parts)
    del built["spec"]["dataset"]["volume"]
    del built["metadata"]["uid"]
    return built


def with_images() -> Manifest:
    """A job whose dataset needs preparation."""
    whole = job()
    whole["spec"]["dataset"] = {
        "source": {"volume": {"claimName": "raw", "path": "a.tar"}},
        "volume": {"size": "1Gi"},
    }
    return whole


@dataclass
class Clock:
    """The time, and what a test has let pass beyond it."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        """The time by which the operator decides."""
        return datetime.now(UTC) + self.ahead


@dataclass
class Harness:
    """One operator at work.

    Attributes:
        server: The API server.
        operator: The operator.
        clock: The time by which it decides.
        work: Its `run`.
    """

    server: FakeApiServer
    operator: Operator
    clock: Clock
    work: asyncio.Task[None]

    async def let_pass(self, seconds: float) -> None:
        """Let time pass, as far as decisions know, and have every job looked at after it."""
        self.clock.ahead += timedelta(seconds=seconds)
        for item in self.server.all(objects.JOB.name):
            self.operator.loop.enqueue((item["metadata"]["namespace"], item["metadata"]["name"]))
        await self.settle()

    async def settle(self) -> None:
        """Wait until the operator has done everything that it would do by now."""
        version = -1
        while version != self.server.version or not self._is_idle(version):
            version = self.server.version
            await self.server.bookmark()
            await until(functools.partial(self._is_idle, version))

    async def heard(self) -> None:
        """Wait until the operator has heard of all children and nodes that are stored."""
        await self.server.bookmark()
        await until(lambda: self.operator.has_heard(self.server.version))

    def _is_idle(self, version: int) -> bool:
        stored = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): item["metadata"]
            for item in self.server.all(objects.JOB.name)
        }
        jobs = self.operator.cluster.jobs
        known = {stored.job: stored for stored in jobs.all()}
        return (
            self.operator.is_idle(version)
            and known.keys() == stored.keys()
            and all(
                item.version >= int(stored[key]["resourceVersion"])
                for key, item in known.items()
                if key is not None
            )
        )

    def status(self, name: str = "digits") -> Manifest:
        """What is recorded of a job."""
        found = self.server.get(objects.JOB.name, name)
        assert found is not None
        return dict(found.get("status") or {})

    def condition(self, kind: str, name: str = "digits") -> Manifest:
        """One of a job's conditions."""
        return next(dict(item) for item in self.status(name)["conditions"] if item["type"] == kind)

    def pods(self) -> list[str]:
        """The names of the pods that are there."""
        return [item["metadata"]["name"] for item in self.server.all("Pod")]

    def events(self) -> list[str]:
        """The reasons of the events that were recorded, in alphabetical order."""
        return sorted(item["reason"] for item in self.server.all("Event"))

    async def run_pods(self, node: str = "n1", address: str = "10.0.0.1") -> None:
        """Do what scheduler and kubelet do to pods that are only created."""
        for pod in self.server.all("Pod"):
            if pod["status"]["phase"] == "Pending" and not pod["spec"].get("schedulingGates"):
                await self.server.change(
                    "Pod", pod["metadata"]["name"], lambda item: start_program(item, node, address)
                )

    async def end_pod(self, name: str, code: int = 0) -> None:
        """Let a pod's program end."""
        await self.server.change("Pod", name, lambda item: end_program(item, code))

    async def end_pods(self) -> None:
        """Let every pod's program end well."""
        for name in self.pods():
            await self.end_pod(name)

    async def finish_deleting(self) -> None:
        """Let the pods go that are being deleted."""
        for pod in self.server.all("Pod"):
            if "deletionTimestamp" in pod["metadata"]:
                await self.server.remove("Pod", pod["metadata"]["name"])


def start_program(pod: Manifest, node: str, address: str) -> None:
    pod["spec"]["nodeName"] = node
    pod["status"] = {
        "phase": "Running",
        "podIP": address,
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [
            {"name": "main", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
        ],
    }


def end_program(pod: Manifest, code: int) -> None:
    ended = {"exitCode": code, "finishedAt": "2026-01-02T03:05:05Z"}
    if code == 0:
        ended["message"] = FINISHED
    pod["status"]["phase"] = "Failed" if code else "Succeeded"
    pod["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}}]


def succeeded_pod(owner: Manifest, message: str) -> Manifest:
    """The pod of a Job that has ended, with its termination message."""
    ended = {"exitCode": 0, "message": message}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{owner['metadata']['name']}-abcde",
            "namespace": "vision",
            "labels": owner["metadata"]["labels"],
            "ownerReferences": [{"uid": owner["metadata"]["uid"], "controller": True}],
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
        },
    }


@contextlib.asynccontextmanager
async def running(
    server: FakeApiServer,
    configuration: Manifest | None = None,
    connection: Connection | None = None,
    lease: LeaseTimes | None = None,
) -> AsyncIterator[Harness]:
    """Run an operator, with kopf, until the block ends.

    Args:
        server: The API server.
        configuration: The operator's.
        connection: The way to the API server.
        lease: The times of the lease that it needs; None if it is the only operator.
    """
    configured = parse(QUICK if configuration is None else configuration, "test")
    connection = Connection(server.url) if connection is None else connection
    fence = None if lease is None else Fence(lease)
    async with Client(connection) as lease_client, Client(connection, fence) as client:
        clock, election = Clock(), None
        if fence is not None and lease is not None:
            where = (configured.lease_namespace, configured.namespaces)
            election = LeaderElection(lease_client, *where, fence, lease)
        operator = Operator(client, configured, clock, election)
        operator.loop.debounce_seconds = 0
        work = asyncio.create_task(operator.run())
        definition = asyncio.create_task(operator.find_definition())
        kopf = await handlers.start(operator, connection, configured.namespaces)
        try:
            yield Harness(server, operator, clock, work)
        finally:
            for task in (work, definition, kopf):
                task.cancel()
            await asyncio.gather(work, definition, kopf, return_exceptions=True)
            if election is not None:
                await operator.close()


@contextlib.asynccontextmanager
async def cluster_of(
    *objects: Manifest, claims: Sequence[Manifest] | None = None
) -> AsyncIterator[FakeApiServer]:
    """Run an API server that holds these objects, until the block ends.

    Args:
        objects: What is there.
        claims: Those that are there; as a rule the one that `job` names.
    """
    async with FakeApiServer() as server:
        for item in (*([claim()] if claims is None else claims), *objects):
            await server.add(item)
        yield server


@contextlib.asynccontextmanager
async def cluster_of_one(
    configuration: Manifest | None = None, *, claims: Sequence[Manifest] | None = None
) -> AsyncIterator[Harness]:
    """Run an API server with one node, and one operator, until the block ends."""
    async with (
        cluster_of(node("n1"), claims=claims) as server,
        running(server, configuration) as harness,
    ):
        yield harness


def claim(
    *modes: str,
    name: str = job_table.PREPARED["prepared"]["claimName"],
    namespace: str = "vision",
) -> Manifest:
    """The claim that `job` names, as a user created it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": list(modes or ("ReadWriteMany",))},
    }


def node(name: str, ready: str = "True", *, pods: int = 10, **spec: Any) -> Manifest:
    """A node."""
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": str(pods), "nvidia.com/gpu": "4"},
        },
    }


async def started(harness: Harness, **parts: Any) -> None:
    """Bring a job to where all its pods run."""
    await harness.server.add(job(**parts))
    await harness.settle()
    await harness.run_pods()
    await harness.settle()
    assert harness.status()["phase"] == "Running"
