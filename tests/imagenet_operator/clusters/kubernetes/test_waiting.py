"""A job that waits says why, whichever part of Kubernetes keeps it from starting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.api_requests import Refusal, Request, creates_a_pod
from support.asynchronous import asynchronous, until
from support.operator_harness import Harness, claim, cluster_of_one, job, with_images
from support.sentences import assert_says

Manifest = dict[str, Any]
WORKER = "digits-r0-worker-0"
FULL = Refusal(
    403, "Forbidden", 'jobs.batch "digits-index" is forbidden: exceeded quota: small, used: 1'
)
MISSING = 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'


def creates_a_job(asked: Request) -> bool:
    return (asked.verb, asked.kind) == ("create", "Job")


def lists_events(asked: Request) -> bool:
    return (asked.verb, asked.kind) == ("list", "Event")


def without_node(pod: Manifest) -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod["status"]["conditions"] = [{**unscheduled, "message": "0/3 nodes are available"}]


def creating(pod: Manifest) -> None:
    pod["spec"]["nodeName"] = "n1"
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    pod["status"]["containerStatuses"] = [{"name": "main", "state": waiting}]


def waiting_for(reason: str, message: str) -> Callable[[Manifest], None]:
    def edit(pod: Manifest) -> None:
        creating(pod)
        (status,) = pod["status"]["containerStatuses"]
        status["state"]["waiting"] = {"reason": reason, "message": message}

    return edit


async def change_pods(harness: Harness, edit: Callable[[Manifest], None]) -> None:
    for name in harness.pods():
        await harness.server.change("Pod", name, edit)
    await harness.settle()


async def report(harness: Harness, name: str, reason: str, message: str, at: str) -> None:
    """Record an Event of a pod, as its kubelet does."""
    pod = harness.server.get("Pod", name)
    assert pod is not None
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{name}.{reason}.{at[-3:-1]}", "namespace": "vision"},
        "involvedObject": {"kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }
    await harness.server.add(event)


async def starting(harness: Harness) -> None:
    """Bring a job to where its pods have nodes, and their containers are being created."""
    await harness.server.add(job())
    await harness.settle()
    await change_pods(harness, creating)


@asynchronous
async def test_a_missing_secret_is_in_the_condition_after_thirty_seconds() -> None:
    async with cluster_of_one() as harness:
        await starting(harness)
        await report(harness, WORKER, "FailedMount", MISSING, "2026-01-02T03:04:05Z")
        later = 'Unable to attach or mount volumes: unmounted volumes=["keys"]'
        await report(harness, WORKER, "FailedMount", later, "2026-01-02T03:04:06Z")
        await harness.let_pass(5)
        assert harness.condition("Running")["reason"] == "Starting"
        assert not any(map(lists_events, harness.server.requests))

        await harness.let_pass(30)
        found = harness.condition("Running")
        assert found["reason"] == "FailedMount"
        assert_says(found["message"], f"{WORKER} on n1: ", "Secret or ConfigMap", MISSING)
        assert "since" in harness.status()["startErrors"]

        await harness.run_pods()
        for name in harness.pods():
            await harness.end_pod(name)
        await harness.settle()
        assert harness.status()["phase"] == "Succeeded"


@asynchronous
async def test_events_are_listed_for_a_pod_of_each_role_and_once_in_thirty_seconds() -> None:
    async with cluster_of_one() as harness:
        await starting(harness)
        await harness.let_pass(40)
        for _ in range(5):
            await harness.let_pass(1)
        roles = ("scheduler", "server", "worker")
        assert sum(map(lists_events, harness.server.requests)) == len(roles)
        await harness.let_pass(30)
        assert sum(map(lists_events, harness.server.requests)) == 2 * len(roles)


@asynchronous
async def test_an_operator_that_may_not_list_events_goes_on_without() -> None:
    async with cluster_of_one() as harness:
        harness.server.refuse(Refusal(403, "Forbidden", "events is forbidden"), lists_events)
        await starting(harness)
        await harness.let_pass(40)
        assert harness.condition("Running")["reason"] == "ContainerCreating"
        await harness.run_pods()
        await harness.settle()
        assert harness.status()["phase"] == "Running"


@asynchronous
async def test_an_operator_that_cannot_list_events_at_first_does_not_forget_an_error() -> None:
    async with cluster_of_one() as harness:
        await starting(harness)
        await report(harness, WORKER, "FailedMount", MISSING, "2026-01-02T03:04:05Z")
        await harness.let_pass(40)
        errors = harness.status()["startErrors"]
        # The next leader knows nothing of earlier reads.
        harness.operator.cluster.object_events.forget(("vision", "digits"))
        harness.server.refuse(Refusal(503, "ServiceUnavailable", "starting"), lists_events)
        await harness.let_pass(40)
        assert harness.status()["startErrors"] == errors


@asynchronous
async def test_pods_that_no_node_fits_are_told_within_thirty_seconds() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(job())
        await harness.settle()
        await change_pods(harness, without_node)
        assert harness.condition("Running")["reason"] == "Scheduling"
        await harness.let_pass(20)
        found = harness.condition("Running")
        assert found["reason"] == "Unschedulable"
        assert_says(found["message"], "and 4 more: ", "no node fits", "0/3 nodes are available")


@asynchronous
async def test_a_pull_that_is_tried_again_and_again_is_written_once() -> None:
    pull = 'rpc error: code = NotFound desc = failed to pull image "r.example/t:9": not found'
    async with cluster_of_one() as harness:
        await harness.server.add(job())
        await harness.settle()
        await change_pods(harness, waiting_for("ErrImagePull", pull))
        before = harness.server.counts()["update", "ImageNetJob"]
        for _ in range(3):
            backs_off = f'Back-off pulling image "r.example/t:9": ErrImagePull: {pull}'
            await change_pods(harness, waiting_for("ImagePullBackOff", backs_off))
            await change_pods(harness, waiting_for("ErrImagePull", pull))
        assert harness.server.counts()["update", "ImageNetJob"] == before
        found = harness.condition("Running")
        assert found["reason"] == "ImagePullBackOff"
        assert f"more: the image cannot be pulled: {pull}; push" in found["message"]


@asynchronous
async def test_a_refused_job_of_the_preparation_is_told_and_cured() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        harness.server.refuse(FULL, creates_a_job)
        await harness.server.add(with_images())
        await harness.server.until(lambda: "conditions" in harness.status())
        found = harness.condition("DatasetReady")
        assert (found["status"], found["reason"]) == ("False", "QuotaExceeded")
        assert found["message"].startswith(f"the API server refuses it: {FULL}; raise the Resource")

        # It is said once, however often the request is repeated.
        refused = harness.server.refuse(FULL, creates_a_job)
        harness.server.faults.pop(0)
        before = harness.server.counts()["update", "ImageNetJob"]
        await until(lambda: len(refused) >= 2)
        assert harness.server.counts()["update", "ImageNetJob"] == before

        harness.server.faults.clear()
        await harness.let_pass(60)
        assert harness.condition("DatasetReady")["reason"] == "Indexing"


@asynchronous
async def test_a_webhook_that_is_down_is_told_between_attempts() -> None:
    down = 'Internal error occurred: failed calling webhook "p.example.com": connection refused'
    async with cluster_of_one() as harness:
        harness.server.refuse(
            Refusal(500, "InternalError", down),
            lambda asked: creates_a_pod(asked) and asked.body["metadata"]["name"] == WORKER,
        )
        await harness.server.add(job())
        await harness.server.until(lambda: "outcome" in harness.status().get("training", {}))
        await harness.settle()
        found = harness.condition("Running")
        assert (found["status"], found["reason"]) == ("False", "WebhookFailed")
        assert down in found["message"]

        harness.server.faults.clear()
        while harness.status()["phase"] != "Running":
            await harness.let_pass(600)
            await harness.run_pods()
        assert harness.condition("Running")["reason"] == "AllMembersRunning"
        assert harness.status()["restarts"] == 0


@asynchronous
async def test_a_refusal_that_lasts_is_one_event_with_a_count() -> None:
    async with cluster_of_one() as harness:
        harness.server.refuse(
            Refusal(403, "Forbidden", "pods is forbidden: exceeded quota: small"), creates_a_pod
        )
        await harness.server.add(job())
        while harness.events().count("CreationCutOff") < 4:
            await harness.let_pass(600)
        (event,) = (
            item for item in harness.server.all("Event") if item["reason"] == "ApiServerRefused"
        )
        assert event["count"] >= 3
        assert event["lastTimestamp"] > event["firstTimestamp"]
