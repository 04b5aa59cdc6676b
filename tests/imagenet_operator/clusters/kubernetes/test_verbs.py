"""Everything that the operator may ask of the API server is asked in some job's life."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import LeaseTimes
from support.api_requests import Refusal, creates_a_pod
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import QUICK, Harness, claim, cluster_of, job, node, running

Manifest = dict[str, Any]
LEASE = LeaseTimes(duration=3600, renew_deadline=3000, retry_period=0.5)
"""The times of a Lease that never expires in a test."""


def used(server: FakeApiServer) -> dict[tuple[str, str], set[str]]:
    """What was asked for, as RBAC calls it."""
    found = defaultdict(set)
    for asked in server.requests:
        found[asked.resource].add(asked.verb)
    return dict(found)


def stranger(kind: str, name: str) -> Manifest:
    version = objects.BY_NAME[kind].api_version
    metadata = {"name": name, "namespace": "vision"}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "spec": {}}


async def wait_for_names(harness: Harness, wanted: Manifest, *taken: tuple[str, str]) -> None:
    """Apply a job whose names others hold, who go one after another."""
    for kind, name in taken:
        await harness.server.add(stranger(kind, name))
    await harness.server.add(wanted)
    await harness.settle()
    for kind, name in taken:
        await harness.server.remove(kind, name)
        harness.operator.loop.enqueue(("vision", wanted["metadata"]["name"]))
        await harness.settle()


async def train(harness: Harness) -> None:
    """A gang waits, is let go, loses a member, and is deleted when its time is over."""
    policy = {"schedulingPolicy": {"gang": "Wait"}, "ttlSecondsAfterFinished": 0}
    await wait_for_names(
        harness,
        job(run_policy=policy),
        ("Service", "digits-r0"),
        ("NetworkPolicy", "digits-r0"),
        ("PodDisruptionBudget", "digits-r0"),
    )
    await harness.run_pods()
    await harness.end_pod("digits-r0-worker-1", code=1)
    await harness.settle()
    await harness.finish_deleting()
    await harness.settle()
    await harness.run_pods()
    await harness.end_pods()
    await harness.server.until(lambda: harness.server.get("ImageNetJob", "digits") is None)


async def prepare(harness: Harness) -> None:
    """A preparation that is suspended and fails, with a claim that shall go with its job."""
    wanted = job("raw", run_policy={"cleanPodPolicy": "All"})
    source = {"volume": {"claimName": "archives", "path": "a.tar"}}
    wanted["spec"]["dataset"] = {"source": source, "volume": {"size": "1Gi"}}
    await wait_for_names(
        harness, wanted, ("PersistentVolumeClaim", "raw-dataset"), ("Job", "raw-index")
    )
    await harness.server.change("ImageNetJob", "raw", suspend)
    await harness.settle()
    await harness.server.change("ImageNetJob", "raw", resume)
    await harness.settle()
    await harness.server.change("Job", "raw-index", fail)
    await harness.settle()
    assert harness.status("raw")["phase"] == "Failed"


async def wait(harness: Harness) -> None:
    """A job whose pods are refused for a while, and then do not start."""
    full = Refusal(403, "Forbidden", "exceeded quota: pods")
    harness.server.refuse(full, creates_a_pod)
    await harness.server.add(job("waiting"))
    while not any(event.get("count", 0) > 1 for event in harness.server.all("Event")):
        await harness.let_pass(600)
    harness.server.faults.clear()
    while not harness.pods():
        await harness.let_pass(600)
    for name in harness.pods():
        await harness.server.change("Pod", name, lambda pod: pod["spec"].update(nodeName="n1"))
    await harness.settle()
    await harness.let_pass(40)


def suspend(item: Manifest) -> None:
    item["metadata"]["generation"] = item["metadata"].get("generation", 1) + 1
    item["spec"]["runPolicy"] |= {"suspend": True, "retentionPolicy": "Delete"}


def resume(item: Manifest) -> None:
    item["metadata"]["generation"] += 1
    item["spec"]["runPolicy"]["suspend"] = False


def fail(item: Manifest) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    item["status"] = {"conditions": [failed]}


@asynchronous
async def test_every_verb_that_is_asked_for_is_used() -> None:
    configuration = {**QUICK, "podDisruptionBudget": True}
    claims = [claim(), claim(name="archives")]
    async with (
        cluster_of(node("n1"), claims=claims) as server,
        running(server, configuration, lease=LEASE) as harness,
    ):
        await wait_for_names(harness, job("late"), ("Pod", "late-r0-worker-0"))
        await train(harness)
        await prepare(harness)
        await harness.settle()
        await wait(harness)
        await server.until(lambda: server.counts()["update", "Lease"])

        # Only jobs in a queue have workloads: test_queues.py.
        of_queues = (objects.WORKLOAD.group, objects.WORKLOAD.plural)
        assert used(harness.server) == {
            name: set(verbs) for name, verbs in objects.VERBS.items() if name != of_queues
        }
