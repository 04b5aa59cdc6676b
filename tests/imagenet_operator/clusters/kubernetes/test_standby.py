"""The operator that waits for the lease: it knows everything, and does nothing, until it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import generate_latest

from imagenet_operator.clusters.kubernetes import leader_election, metrics
from imagenet_operator.clusters.kubernetes.client import LeaseTimes
from imagenet_operator.clusters.kubernetes.leader_election import LeaseLost
from support.api_requests import Request, creates_a_pod
from support.asynchronous import asynchronous, until
from support.fake_api_server import FakeApiServer
from support.operator_harness import FIRST, QUICK, Harness, cluster_of, job, node, running

PATIENT = LeaseTimes(duration=3600, renew_deadline=3000, retry_period=0.5)
"""The times of a Lease that never expires in a test."""

OF_JOBS = (metrics.JOBS, metrics.WAITING, metrics.SECONDS, metrics.GOODPUT, metrics.GPU_HOURS)

SAMPLING = {**QUICK, "sampler": {"enabled": True, "intervalSeconds": 1}}


@asynccontextmanager
async def two(
    configuration: dict[str, object] = QUICK,
) -> AsyncIterator[tuple[FakeApiServer, Harness, Harness]]:
    """Run a leader, and an operator that waits for its lease."""
    async with (
        cluster_of(node("n1")) as server,
        running(server, configuration, lease=PATIENT) as leader,
    ):
        await until(lambda: server.all("Lease"))
        async with running(server, configuration, lease=PATIENT) as standby:
            await until(lambda: not list(standby.operator.pending()))
            yield server, leader, standby


def knows_pods(harness: Harness) -> bool:
    return len(harness.operator.cluster.children["Pod"]) == len(FIRST)


@asynchronous
async def test_a_second_replica_is_ready_with_warm_caches_and_has_nothing_to_do() -> None:
    async with two(SAMPLING) as (server, leader, standby):
        await server.add(job())
        await server.until(lambda: len(server.all("Pod")) == len(FIRST))
        await until(lambda: knows_pods(standby))
        await leader.run_pods()
        await server.until(lambda: leader.status().get("phase") == "Running")
        await until(lambda: standby.operator.cluster.jobs.get("vision", "digits"))

        assert list(standby.operator.troubles()) == []
        assert list(standby.operator.pending()) == []
        assert standby.operator.loop.is_idle
        names = {task.get_name() for task in asyncio.all_tasks()}
        # The leader's: of the tasks that act there is one each.
        assert {"loop", "sampler", "events", "lease"} <= names
        assert sum(task.get_name() == "loop" for task in asyncio.all_tasks()) == 1
        assert sum(task.get_name() == "sampler" for task in asyncio.all_tasks()) == 1
        assert sum(map(creates_a_pod, server.requests)) == len(FIRST)


@asynchronous
async def test_an_operator_that_has_not_listed_all_pods_does_not_ask_for_the_lease() -> None:
    async with cluster_of(node("n1")) as server:
        may_list = asyncio.Event()

        async def slow(asked: Request) -> None:
            if (asked.verb, asked.kind) == ("list", "Pod"):
                await may_list.wait()

        server.faults.append(slow)
        async with running(server, lease=PATIENT) as harness:
            await until(lambda: list(harness.operator.pending()) != [])
            await until(lambda: any(item.kind == "Pod" for item in server.requests))
            assert server.all("Lease") == []
            assert [item for item in server.requests if item.kind == "Lease"] == []
            may_list.set()
            await until(lambda: server.all("Lease"))


@asynchronous
async def test_only_the_leader_exports_the_jobs() -> None:
    async with two() as (server, _, standby):
        await server.add(job())
        await until(lambda: standby.operator.cluster.jobs.get("vision", "digits"))
        for metric in OF_JOBS:
            metric.clear()
        standby.operator.measure()
        exported = generate_latest(metrics.REGISTRY).decode()
    for metric in OF_JOBS:
        (family,) = metric.collect()
        assert f"{family.name}{{" not in exported
    assert "imagenet_operator_queue_depth 0.0" in exported


@asynchronous
async def test_the_next_leader_goes_on_where_the_last_one_was(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    async with cluster_of(node("n1")) as server:
        async with running(server, lease=PATIENT) as leader:
            await server.add(job())
            await leader.settle()
            async with running(server, lease=PATIENT) as standby:
                await until(lambda: "waits: " in caplog.text)
                await leader.run_pods()
                await leader.settle()
                assert leader.status()["phase"] == "Running"
                leader.work.cancel()
                await asyncio.gather(leader.work, return_exceptions=True)
                with monkeypatch.context() as patched:
                    # A busy machine may take longer than an operator has.
                    patched.setattr(leader_election, "_RELEASE_SECONDS", 60.0)
                    await leader.operator.close()
                await standby.end_pods()
                await server.until(lambda: standby.status().get("phase") == "Succeeded")
        assert standby.status()["restarts"] == 0
        assert sum(map(creates_a_pod, server.requests)) == 5


@asynchronous
async def test_a_leader_that_ends_amid_its_writes_leaves_the_lease_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_election, "_ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(leader_election, "_RELEASE_SECONDS", 60.0)
    creating, answer = asyncio.Event(), asyncio.Event()

    async def slow(asked: Request) -> None:
        if creates_a_pod(asked):
            creating.set()
            await answer.wait()

    async with two() as (server, leader, standby):
        server.faults.append(slow)
        await server.add(job())
        await creating.wait()
        leader.work.cancel()
        await asyncio.gather(leader.work, return_exceptions=True)
        closing = asyncio.create_task(leader.operator.close())
        answer.set()
        await closing
        await server.until(lambda: len(server.all("Pod")) == len(FIRST))
        await standby.run_pods()
        await server.until(lambda: standby.status().get("phase") == "Running")
        assert standby.status()["restarts"] == 0


@asynchronous
async def test_an_operator_that_loses_the_lease_ends_at_once_and_writes_nothing_more() -> None:
    async with cluster_of(node("n1")) as server, running(server, lease=PATIENT) as leader:
        await server.add(job())
        await leader.settle()
        (held,) = server.all("Lease")
        await server.change(
            *("Lease", held["metadata"]["name"]),
            lambda item: item["spec"].update(holderIdentity="thief"),
            held["metadata"]["namespace"],
        )
        with pytest.raises(LeaseLost, match="thief has taken imagenet-operator"):
            await leader.work
        before = len(server.writes())
        await leader.end_pods()
        await leader.operator.close()
        assert server.writes()[before:] == []


@asynchronous
async def test_without_the_right_to_read_leases_it_is_not_ready() -> None:
    async with cluster_of(node("n1")) as server:
        server.verbs["coordination.k8s.io", "leases"] = frozenset()
        async with running(server, lease=PATIENT) as harness:
            await until(
                lambda: any("may not list leases" in it for it in harness.operator.pending())
            )
            await server.add(job())
            await until(lambda: harness.operator.cluster.jobs.get("vision", "digits"))
            assert server.writes() == []
