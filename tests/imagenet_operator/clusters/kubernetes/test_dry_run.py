"""The pods of a new job are tried before anything is created, so nothing is refused after hours."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from imagenet_operator.manifests import labels, preview
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest
from support.api_requests import Lost, Refusal, Request, tries_a_pod
from support.asynchronous import asynchronous
from support.operator_harness import (
    Harness,
    claim,
    cluster_of_one,
    job,
    started,
    with_images,
)

INVALID = Refusal(
    422,
    "Invalid",
    'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less '
    "than or equal to cpu limit of 500m",
    details={"causes": [{"field": "spec.containers[0].resources.requests"}]},
)
UNKNOWN = Refusal(
    400,
    "BadRequest",
    'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
    '"spec.fromTheFuture"',
)
LIMITED = Refusal(
    403, "Forbidden", 'pods "p" is forbidden: maximum memory usage per Container is 1Gi, but 2Gi'
)
INSECURE = Refusal(
    403, "Forbidden", 'pods "p" is forbidden: violates PodSecurity "restricted:latest": seccomp'
)
FULL = Refusal(403, "Forbidden", 'pods "p" is forbidden: exceeded quota: small, used: pods=1')
UNTRIED = Refusal(400, "BadRequest", 'admission webhook "a.example.com" does not support dry run')
DENIED = Refusal(403, "Forbidden", 'admission webhook "a.example.com" denied the request: ask us')
BROKEN = Refusal(
    500, "InternalError", 'failed calling webhook "a.example.com": context deadline exceeded'
)


def of_role(role: str) -> Any:
    return lambda asked: (
        tries_a_pod(asked) and asked.body["metadata"]["labels"][labels.JOB_ROLE] == role
    )


def tries(harness: Harness) -> list[Request]:
    return list(filter(tries_a_pod, harness.server.requests))


@asynchronous
async def test_one_pod_of_each_role_is_tried_before_anything_is_created() -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        await harness.server.add(with_images())
        await harness.settle()

        tried = tries(harness)
        roles = Counter(item.body["metadata"]["labels"][labels.JOB_ROLE] for item in tried)
        assert roles == dict.fromkeys(("index", "pack", "seal", "scheduler", "server", "worker"), 1)
        assert {item.field_validation for item in tried} == {"Strict"}
        creates = [item for item in harness.server.requests if item.verb == "create"]
        assert creates[: len(tried)] == tried
        assert harness.server.get("Job", "digits-index") is not None


@asynchronous
async def test_what_was_built_for_the_dry_run_is_not_built_again_to_accept_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builds: list[ImageNetJob] = []
    everything = preview.everything

    def counting(job: ImageNetJob, *arguments: Any) -> list[Manifest]:
        builds.append(job)
        return everything(job, *arguments)

    monkeypatch.setattr(preview, "everything", counting)
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        await harness.server.add(with_images())
        await harness.settle()

        assert harness.condition("Created")["status"] == "True"
    assert len(builds) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (INVALID, "InvalidTemplate"),
        (UNKNOWN, "InvalidTemplate"),
        (LIMITED, "LimitRangeViolated"),
        (INSECURE, "PodSecurityViolated"),
    ],
)
@asynchronous
async def test_permanent_refusal_fails_the_job_before_the_preparation(
    answer: Refusal, reason: str
) -> None:
    async with cluster_of_one(claims=[claim(name="raw")]) as harness:
        harness.server.refuse(answer, of_role("worker"))
        await harness.server.add(with_images())
        await harness.settle()

        failed = harness.condition("Failed")
        assert (failed["status"], failed["reason"]) == ("True", reason)
        assert failed["message"].startswith("the API server refuses a pod of worker: ")
        assert str(answer) in failed["message"]
        assert not harness.server.all("Job")
        assert [item["metadata"]["name"] for item in harness.server.all(claim()["kind"])] == ["raw"]


@pytest.mark.parametrize("answer", [FULL, UNTRIED])
@asynchronous
async def test_what_may_be_accepted_later_is_passed_over(answer: Refusal) -> None:
    async with cluster_of_one() as harness:
        refused = harness.server.refuse(answer, tries_a_pod)
        await started(harness)

        assert len(refused) == 3
        notes = [item for item in harness.server.all("Event") if item["reason"] == "DryRunSkipped"]
        assert len(notes) == (answer is UNTRIED)
        assert all(str(answer) in item["message"] for item in notes)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (DENIED, "WebhookDenied"),
        (BROKEN, "WebhookFailed"),
        (Refusal(403, "Forbidden", 'no PriorityClass with name "x" was found'), "ApiServerRefused"),
    ],
)
@asynchronous
async def test_the_job_waits_for_any_other_answer_and_says_so(answer: Refusal, reason: str) -> None:
    async with cluster_of_one() as harness:
        harness.server.refuse(answer, tries_a_pod)
        await harness.server.add(job())
        await harness.server.until(lambda: harness.status().get("conditions"))
        waits = harness.condition("DatasetReady")
        assert (waits["reason"], harness.pods()) == (reason, [])
        assert str(answer) in waits["message"]

        harness.server.faults.clear()
        await harness.let_pass(60)
        assert len(harness.pods()) == 5


@asynchronous
async def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    async with cluster_of_one() as harness:
        lost: list[Request] = []

        async def lose(asked: Request) -> None:
            if tries_a_pod(asked) and len(lost) < 12:
                lost.append(asked)
                raise Lost

        harness.server.faults.append(lose)
        await harness.server.add(job())
        await harness.server.until(lambda: len(harness.pods()) == 5)
        assert harness.status().get("phase") != "Failed"


@asynchronous
async def test_pods_are_tried_once_for_each_generation_until_the_first_creation() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(job(run_policy={"suspend": True}))
        await harness.settle()
        assert len(tries(harness)) == 3
        await harness.let_pass(600)
        assert len(tries(harness)) == 3

        def resume(item: dict[str, Any]) -> None:
            item["spec"]["runPolicy"]["suspend"] = False

        await harness.server.change("ImageNetJob", "digits", resume)
        await harness.settle()
        assert len(tries(harness)) == 6
        # It had started when its fields were judged for the first time.
        assert {item.field_validation for item in tries(harness)[3:]} == {""}
        await harness.run_pods()
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        await harness.finish_deleting()
        await harness.let_pass(60)
        assert "digits-r1-worker-1" in harness.pods()
        assert len(tries(harness)) == 6


@asynchronous
async def test_a_misspelled_field_of_a_job_that_has_started_is_left_out() -> None:
    async with cluster_of_one() as harness:
        await started(harness)

        def misspell(item: dict[str, Any]) -> None:
            template = {"spec": {"nodeSelectr": {"a": "b"}, "fromTheFuture": 1}}
            item["spec"]["training"]["workers"]["template"] = template

        await harness.server.change("ImageNetJob", "digits", misspell)
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        await harness.finish_deleting()
        await harness.let_pass(60)

        worker = harness.server.get("Pod", "digits-r1-worker-0")
        assert worker is not None
        assert "nodeSelectr" not in worker["spec"]
        assert worker["spec"]["fromTheFuture"] == 1
        (event,) = [
            item for item in harness.server.all("Event") if item["reason"] == "UnknownField"
        ]
        assert "spec.training.workers.template.spec.nodeSelectr" in event["message"]
        assert "did you mean nodeSelector?" in event["message"]
