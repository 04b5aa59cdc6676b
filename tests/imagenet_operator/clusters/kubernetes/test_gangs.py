"""Gangs that wait for room, on the nodes of a pool as clouds make them: with a taint."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import capacity
from imagenet_operator.clusters.loop import MAX_CONCURRENT_RECONCILES
from imagenet_spec.load import load
from support.api_requests import Refusal, Request
from support.asynchronous import asynchronous, until
from support.fake_api_server import FakeApiServer
from support.job_table import PREPARED
from support.operator_harness import Harness, cluster_of, job, node, running
from support.sentences import assert_says

Manifest = dict[str, Any]
FLAGSHIP = Path(__file__).parents[4] / "examples" / "imagenet-resnet152.yaml"
KEY = ("vision", "imagenet-resnet152")
FULL = Refusal(500, "InternalError", "the request is refused")
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
    """Have a job looked at, as a change of one of its pods makes the operator do."""
    await harness.settle()
    harness.operator.loop.enqueue((KEY[0], name))
    await harness.settle()


@asynchronous
async def test_the_flagship_starts_on_the_pool_that_it_is_written_for() -> None:
    nodes = [*map(gpu_machine, range(16)), machine("plain", 160, "512Gi")]
    async with cluster_of(*nodes) as server, running(server) as harness:
        await server.add(flagship())
        # The scheduler says nothing about pods with gates, so no event follows their creation.
        await harness.settle()

        assert len(harness.pods()) == 33
        assert gated(harness) == []


@asynchronous
async def test_one_machine_of_it_beside_a_plain_one() -> None:
    nodes = [gpu_machine(0), machine("plain", 16, "64Gi")]
    async with cluster_of(*nodes) as server, running(server) as harness:
        await server.add(flagship(1))
        await looked_at(harness)

        assert len(harness.pods()) == 3
        assert gated(harness) == []


@asynchronous
async def test_who_waits_says_for_what_and_says_it_once() -> None:
    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        await server.add(flagship(1))
        await looked_at(harness)

        assert len(gated(harness)) == 3
        waits = harness.condition("Running", KEY[1])
        assert (waits["status"], waits["reason"]) == ("False", "Scheduling")
        pod, taint = "imagenet-resnet152-r0-scheduler-0", "nvidia.com/gpu=present:NoSchedule"
        assert_says(waits["message"], "0 of 1 nodes", pod, f"1 with the taint {taint}")
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
    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        await server.add(job(run_policy={"schedulingPolicy": {"gang": "Wait"}}))
        await looked_at(harness, "digits")

        assert len(gated(harness)) == 5


@asynchronous
async def test_a_gang_that_waits_for_the_capacity_lock_has_its_events_read_before() -> None:
    def let_create(pod: Manifest) -> None:
        pod["spec"] |= {"schedulingGates": [], "nodeName": "gpu-0"}

    def lists_events(asked: Request) -> bool:
        return (asked.verb, asked.kind) == ("list", "Event")

    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        await server.add(job(run_policy=WAIT))
        await looked_at(harness, "digits")
        server.refuse(FULL, lambda asked: (asked.verb, asked.kind) == ("patch", "Pod"))
        await server.change("Pod", "digits-r0-worker-0", let_create)
        await harness.settle()
        assert gated(harness)
        async with harness.operator.cluster.capacity_lock.acquire(("vision", "other")):
            assert not any(map(lists_events, server.requests))
            harness.clock.ahead += timedelta(seconds=40)
            harness.operator.loop.enqueue(("vision", "digits"))
            await until(lambda: any(map(lists_events, server.requests)))


WAIT = {"schedulingPolicy": {"gang": "Wait"}}
MANY = 3 * capacity.MAX_WAITERS


def capacity_reads(server: FakeApiServer) -> int:
    """How often all pods of the cluster were listed to see what nodes have left.

    The first such list fills the cache of our own.
    """
    asked = [item for item in server.requests if (item.verb, item.kind) == ("list", "Pod")]
    return len([item for item in asked if not item.namespace]) - 1


def enqueue_all(harness: Harness, names: list[str]) -> None:
    for name in names:
        harness.operator.loop.enqueue((KEY[0], name))


def small_gang(name: str) -> Manifest:
    found = job(name, run_policy=WAIT, training={"workers": {"replicas": 1}})
    found["spec"]["training"]["strategy"]["parameterServer"]["servers"]["replicas"] = 1
    return found


async def waiting(harness: Harness, count: int) -> list[str]:
    names = [f"gang-{number:02}" for number in range(count)]
    for name in names:
        await harness.server.add(small_gang(name))
    await harness.settle()
    assert len(gated(harness)) == 3 * count
    return names


@pytest.fixture
def long_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is that runs the tests."""
    monkeypatch.setattr(capacity, "MAX_AGE_SECONDS", 3600.0)


@pytest.mark.usefixtures("long_believed")
@asynchronous
async def test_the_room_is_looked_for_once_however_many_wait() -> None:
    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        names = await waiting(harness, MANY)
        for _ in range(3):
            enqueue_all(harness, names)
            await harness.settle()

        assert len(gated(harness)) == 3 * MANY
        assert capacity_reads(server) == 1
        messages = {harness.condition("Running", name)["message"] for name in names}
        assert all(text.startswith("waiting until all members fit") for text in messages)


@asynchronous
async def test_what_was_seen_of_the_room_is_not_believed_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "MAX_AGE_SECONDS", 0.0)
    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        await waiting(harness, 1)
        before = capacity_reads(server)
        await looked_at(harness, "gang-00")

        assert capacity_reads(server) == before + 1


@pytest.mark.usefixtures("long_believed")
@asynchronous
async def test_a_gang_that_was_let_go_holds_its_room_while_its_pods_get_nodes() -> None:
    """Two gangs of five pods, and eight places; what was listed says nothing of the first."""
    async with cluster_of(node("n1", pods=8)) as server, running(server) as harness:
        await server.add(job("one", run_policy=WAIT))
        await looked_at(harness, "one")
        assert gated(harness) == []
        await server.add(job("two", run_policy=WAIT))
        await looked_at(harness, "two")
        before = capacity_reads(server)
        await harness.run_pods()
        await looked_at(harness, "two")

        assert capacity_reads(server) == before
        assert len(gated(harness)) == 5


@pytest.mark.usefixtures("long_believed")
@asynchronous
async def test_gangs_that_wait_leave_room_for_those_who_do_not() -> None:
    """The list of nodes does not answer; a job that does not need it goes on."""
    answer, go_on = asyncio.Event(), asyncio.Event()

    async def held(asked: Request) -> None:
        if (asked.verb, asked.kind, asked.namespace) == ("list", "Pod", ""):
            answer.set()
            await go_on.wait()

    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        names = await waiting(harness, MAX_CONCURRENT_RECONCILES + 1)
        harness.operator.cluster.capacity_lock.invalidate()
        server.faults.append(held)
        enqueue_all(harness, names)
        await answer.wait()
        await server.add(job())
        await server.until(lambda: server.get("Pod", "digits-r0-worker-1"))
        before = capacity_reads(server)
        go_on.set()
        await harness.settle()

        assert harness.status()["training"]["attempt"] == 0
        assert capacity_reads(server) == before


@asynchronous
async def test_those_who_were_sent_away_have_their_turn() -> None:
    async with cluster_of(gpu_machine(0)) as server, running(server) as harness:
        names = await waiting(harness, MANY)
        await server.add(machine("plain", 1000, "9000Gi"))
        await harness.heard()
        enqueue_all(harness, names)
        await harness.settle()

        assert gated(harness) == []
