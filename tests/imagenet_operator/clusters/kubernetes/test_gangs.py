"""Gangs that wait for room, on the nodes of a pool as clouds make them: with a taint."""

from pathlib import Path
from typing import Any

from imagenet_operator.api import load
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.job_table import PREPARED
from support.operator_harness import Harness, job, node, running

Manifest = dict[str, Any]
FLAGSHIP = Path(__file__).parents[4] / "examples" / "imagenet-resnet152.yaml"
KEY = ("vision", "imagenet-resnet152")
KEPT_FOR_GPUS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def flagship(machines: int = 16) -> Manifest:
    """The example with so many machines, and a dataset that is there already."""
    (document,) = load(FLAGSHIP)
    found: Manifest = document
    found["metadata"]["namespace"] = KEY[0]
    found["spec"]["dataset"] = {"source": PREPARED}
    training = found["spec"]["training"]
    assert training["workers"]["replicas"] == 16
    training["workers"]["replicas"] = machines
    training["batchSize"] = 512 * machines
    training["strategy"]["parameterServer"]["servers"]["replicas"] = machines
    return found


def machine(name: str, cpu: int, memory: str, gpus: int = 0, *taints: Manifest) -> Manifest:
    found = node(name, taints=list(taints))
    amounts = {"cpu": str(cpu), "memory": memory, "pods": "110"}
    found["status"]["allocatable"] = amounts | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return found


def gpu_machine(number: int) -> Manifest:
    return machine(f"gpu-{number}", 64, "480Gi", 16, KEPT_FOR_GPUS)


def gated(harness: Harness) -> list[str]:
    pods = harness.server.all("Pod")
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("schedulingGates")]


async def looked_at(harness: Harness, name: str = KEY[1]) -> None:
    """Have a job looked at, as the scheduler's word on its pods makes the operator do."""
    await harness.settle()
    harness.operator.loop.wish((KEY[0], name))
    await harness.settle()


@asynchronous
async def test_the_flagship_starts_on_the_pool_that_it_is_written_for() -> None:
    async with FakeApiServer() as server:
        for number in range(16):
            await server.add(gpu_machine(number))
        await server.add(machine("plain", 160, "512Gi"))
        async with running(server) as harness:
            await server.add(flagship())
            await looked_at(harness)

            assert len(harness.pods()) == 33
            assert gated(harness) == []


@asynchronous
async def test_one_machine_of_it_beside_a_plain_one() -> None:
    async with FakeApiServer() as server:
        await server.add(gpu_machine(0))
        await server.add(machine("plain", 16, "64Gi"))
        async with running(server) as harness:
            await server.add(flagship(1))
            await looked_at(harness)

            assert len(harness.pods()) == 3
            assert gated(harness) == []


@asynchronous
async def test_who_waits_says_for_what_and_says_it_once() -> None:
    async with FakeApiServer() as server:
        await server.add(gpu_machine(0))
        async with running(server) as harness:
            await server.add(flagship(1))
            await looked_at(harness)

            assert len(gated(harness)) == 3
            waits = harness.condition("Running", KEY[1])
            assert (waits["status"], waits["reason"]) == ("False", "Scheduling")
            assert waits["message"] == (
                "waiting until all members fit: 0 of 1 nodes have room for imagenet-resnet152-r0-"
                "scheduler-0: 1 with the taint nvidia.com/gpu=present:NoSchedule"
            )
            before = len(server.writes())
            for _ in range(120):
                await looked_at(harness)
            assert len(server.writes()) == before

            await server.add(machine("plain", 16, "64Gi"))
            await looked_at(harness)
            assert gated(harness) == []
            said = harness.condition("Running", KEY[1])["message"]
            assert said == "waiting for nodes for all members"


@asynchronous
async def test_a_gang_that_tolerates_nothing_stays_off_the_pool() -> None:
    async with FakeApiServer() as server:
        await server.add(gpu_machine(0))
        async with running(server) as harness:
            await server.add(job(run_policy={"schedulingPolicy": {"gang": "Wait"}}))
            await looked_at(harness, "digits")

            assert len(gated(harness)) == 5
