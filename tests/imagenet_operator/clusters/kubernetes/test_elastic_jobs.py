"""Elastic jobs on Kubernetes: the free capacity that decides about their workers."""

from __future__ import annotations

import functools
from typing import Any

from imagenet_operator.clusters.kubernetes import objects
from support.api_requests import Refusal, Request, creates_a_pod
from support.asynchronous import asynchronous
from support.operator_harness import Harness, cluster_of, job, node, running, start_program
from support.version_skew import set_suspend

Manifest = dict[str, Any]
TRAINING = {
    "strategy": {"parameterServer": {"servers": {"replicas": 1}}},
    "batchSize": 480,
    "workers": {"replicas": 4, "minReplicas": 2, "elastic": {"waitSeconds": 300}},
}
WAIT = {"schedulingPolicy": {"gang": "Wait"}}


def lists_all_pods(asked: Request) -> bool:
    """Whether the capacity is read, once the caches are filled."""
    return (asked.verb, asked.kind, asked.namespace) == ("list", "Pod", "")


async def place(harness: Harness, *nodes: str) -> None:
    waiting = [pod for pod in harness.server.all("Pod") if pod["status"]["phase"] == "Pending"]
    for pod, where in zip(waiting, nodes, strict=True):
        start = functools.partial(start_program, node=where, address="::1")
        await harness.server.change("Pod", pod["metadata"]["name"], start)
    await harness.settle()


async def lose(harness: Harness, pod: str) -> None:
    """Evict a pod, and let those of its attempt go."""

    def evict(item: Manifest) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        item["status"]["conditions"].append(target)

    await harness.server.change("Pod", pod, evict)
    await harness.settle()
    await finish(harness)


async def finish(harness: Harness) -> None:
    """Let the pods go that are being deleted, and the next attempt start."""
    await harness.finish_deleting()
    await harness.let_pass(1)


def workers(harness: Harness) -> int:
    return int(harness.status()["training"]["workers"])


async def shrunk(harness: Harness) -> None:
    """Bring a job to where it runs with 2 of 4 workers on one node, and another node comes."""
    await harness.server.add(job(training=TRAINING))
    await harness.settle()
    assert workers(harness) == 4
    await place(harness, *"aaaabb")
    await harness.server.remove("Node", "b", "")
    await lose(harness, "digits-r0-worker-3")
    assert workers(harness) == 2
    await place(harness, *"aaaa")
    assert harness.status()["phase"] == "Running"


@asynchronous
async def test_the_room_of_the_former_attempt_counts_for_the_next_one() -> None:
    nodes = (node("a", pods=4), node("b", pods=2))
    async with cluster_of(*nodes) as server, running(server) as harness:
        await shrunk(harness)
        await server.add(node("b", pods=2))
        await harness.heard()
        # The next list has the pods of this attempt, and is kept for some seconds.
        harness.operator.cluster.capacity_lock.invalidate()
        await harness.let_pass(31)
        await finish(harness)

        assert workers(harness) == 4
        assert {"Shrunk", "Growing", "Grown"} <= set(harness.events())


@asynchronous
async def test_a_quota_that_admits_fewer_workers_makes_the_job_smaller() -> None:
    async with cluster_of(node("a")) as server, running(server) as harness:
        # One scheduler, one server and at most three workers.
        server.refuse(
            Refusal(
                403, "Forbidden", 'pods "x" is forbidden: exceeded quota: team, limited: pods=5'
            ),
            lambda asked: creates_a_pod(asked) and len(harness.pods()) >= 5,
        )
        await server.add(job(training=TRAINING))
        await server.until(lambda: "QuotaExceeded" in harness.events())
        for _ in range(4):
            await harness.let_pass(30)
            await harness.finish_deleting()
            await harness.let_pass(30)
        assert workers(harness) == 3
        assert len(harness.pods()) == 5
        assert "Shrunk" in harness.events()


@asynchronous
async def test_of_two_jobs_that_see_one_free_node_one_stops_for_it() -> None:
    nodes = (node("a", pods=6), node("b", pods=6))
    names = ("digits", "other")
    async with cluster_of(*nodes) as server, running(server) as harness:
        for name in names:
            await server.add(job(name, training=TRAINING))
        await harness.settle()
        await place(harness, *"aaaaaabbbbbb")
        for name, where in zip(names, "ab", strict=True):
            await server.remove("Node", where, "")
            await server.add(node(where, pods=4))
            await lose(harness, f"{name}-r0-worker-3")
            await place(harness, *(where * 4))
            assert harness.status(name)["training"]["workers"] == 2
        await server.add(node("c", pods=2))
        await harness.heard()
        harness.operator.cluster.capacity_lock.invalidate()
        await harness.let_pass(31)
        await harness.let_pass(31)

        stopped = [name for name in names if "outcome" in harness.status(name)["training"]]
        assert len(stopped) == 1
        await finish(harness)
        grown = [name for name in names if harness.status(name)["training"]["workers"] == 4]
        assert grown == stopped
        assert harness.events().count("Growing") == 1


@asynchronous
async def test_a_job_that_is_suspended_while_it_grows_leaves_the_room_to_others() -> None:
    nodes = (node("a", pods=4), node("b", pods=2))
    async with cluster_of(*nodes) as server, running(server) as harness:
        await shrunk(harness)
        await server.add(node("c", pods=2))
        await harness.heard()
        harness.operator.cluster.capacity_lock.invalidate()
        await harness.let_pass(31)
        assert "Growing" in harness.events()
        other = ("vision", "other")
        free = (await harness.operator.cluster.capacity_lock.free(other))["c"].free
        assert free["pods"] == 0
        await server.change("ImageNetJob", "digits", set_suspend(True))
        await harness.settle()
        free = (await harness.operator.cluster.capacity_lock.free(other))["c"].free
        assert free["pods"] == 2


@asynchronous
async def test_a_job_that_has_all_workers_reads_no_capacity() -> None:
    async with cluster_of(node("a")) as server, running(server) as harness:
        await server.add(job(training=TRAINING))
        await harness.settle()
        before = len(server.requests)
        await place(harness, *"aaaaaa")
        await harness.let_pass(31)

        assert not any(map(lists_all_pods, server.requests[before:]))


@asynchronous
async def test_an_operator_that_may_not_list_all_pods_keeps_the_number() -> None:
    forbidden = Refusal(403, "Forbidden", "not in this cluster")
    nodes = (node("a", pods=6),)
    async with cluster_of(*nodes) as server, running(server) as harness:
        await server.add(job(training=TRAINING))
        await harness.settle()
        refused = server.refuse(forbidden, lists_all_pods)
        await place(harness, *"aaaaaa")
        await lose(harness, "digits-r0-worker-3")

        assert refused
        assert workers(harness) == 4
        assert harness.status()["training"]["attempt"] == 1


@asynchronous
async def test_a_job_that_trains_does_not_wait_for_the_lock() -> None:
    nodes = (node("a", pods=4), node("b", pods=2))
    async with cluster_of(*nodes) as server, running(server) as harness:
        await shrunk(harness)
        lock = harness.operator.cluster.capacity_lock
        lock._waiters = 4
        await harness.end_pods()
        await harness.let_pass(1)

        assert harness.condition("Succeeded")["status"] == "True"


@asynchronous
async def test_an_attempt_behind_gates_is_made_smaller() -> None:
    async with cluster_of(node("a", pods=4)) as server, running(server) as harness:
        await server.add(job(training=TRAINING, run_policy=WAIT))
        await harness.settle()
        await harness.let_pass(301)
        await finish(harness)
        await harness.let_pass(30)

        assert workers(harness) == 2
        pods = server.all("Pod")
        assert len(pods) == 4
        assert not any(pod["spec"].get("schedulingGates") for pod in pods)
        assert server.get(objects.JOB.name, "digits") is not None
