"""The cluster of a schedule, and what the invariants make of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from chaos.invariants import Invariants
from chaos.jobs import JobDraw
from chaos.world import NOT_READY_SECONDS, ChaosCluster, JobWorld
from imagenet_operator.manifests import labels
from support import virtual_time
from support.api_storage import Storage

Manifest = dict[str, Any]
T = TypeVar("T")


def member(world: JobWorld, role: str) -> Manifest:
    """Return a pod of the first attempt, as the operator creates it."""
    namespace, job = world.key
    owner = {"kind": "ImageNetJob", "name": job, "uid": world.uid, "controller": True}
    metadata = {
        "name": f"{job}-r0-{role}-0",
        "namespace": namespace,
        "labels": {labels.ATTEMPT: "0", labels.JOB_ROLE: role},
        "ownerReferences": [owner],
    }
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Pending"}}


def play(story: Callable[[ChaosCluster, JobWorld], Awaitable[T]]) -> T:
    """Play something that happens to one job."""

    async def whole(loop: virtual_time.VirtualTimeLoop) -> T:
        del loop
        cluster = ChaosCluster(Storage(), random.Random(0))
        cluster.add_nodes()
        drawn = JobDraw("digits", "servers", is_prepared=True, policy={}, gpus=0, delay=0)
        world = cluster.add_job(drawn.manifest(), drawn.size)
        world.note_created(cluster.storage.create(member(world, "scheduler")))
        for _ in range(20):
            world.step()
        return await story(cluster, world)

    return virtual_time.run(whole)


def test_a_helper_whose_workers_are_not_created_yet_goes_on() -> None:
    async def story(cluster: ChaosCluster, world: JobWorld) -> list[str]:
        del cluster
        return [pod["status"]["phase"] for pod in world.members()]

    assert play(story) == ["Running"]


def test_a_deleted_pod_remains_until_its_lost_node_is_not_ready() -> None:
    async def story(cluster: ChaosCluster, world: JobWorld) -> list[list[str]]:
        invariants = Invariants(cluster, disruption_limit=1, has_lease=False)
        (pod,) = world.members()
        world.terminate(pod)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cluster.lose_node(pod["spec"]["nodeName"], 90))
            await asyncio.sleep(NOT_READY_SECONDS - 1)
            silent = invariants.remaining(world)
            await asyncio.sleep(2)
            lost = invariants.remaining(world)
        return [silent, lost]

    assert play(story) == [["digits-r0-scheduler-0"], []]
