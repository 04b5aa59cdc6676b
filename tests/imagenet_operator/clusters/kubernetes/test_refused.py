"""Jobs that cannot be worked on: refused by the operator, or permanently by the API server."""

from typing import Any

import pytest

from support.api_requests import Refusal, Request, creates_a_pod, writes_status
from support.asynchronous import asynchronous
from support.job_table import BUCKET
from support.operator_harness import FIRST, SECOND, cluster_of_one, job, started
from support.sentences import assert_says

Manifest = dict[str, Any]


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("training", "epochs"), "many", "InvalidSpec"),
        (("training", "batchSize"), 511, "InvalidSpec"),
        (("runPolicy",), {"backoffLimit": "none"}, "InvalidSpec"),
        (
            ("training", "workers", "template"),
            {"spec": {"restartPolicy": "Always"}},
            "InvalidTemplate",
        ),
        (("training", "workers", "template"), ["a pod"], "InvalidTemplate"),
        (
            ("training", "workers", "template"),
            {"spec": {"nodeSelector": {"gpu": True}}},
            "InvalidTemplate",
        ),
        (
            ("training", "workers"),
            {"replicas": "two", "template": {"spec": {"restartPolicy": "Always"}}},
            "InvalidSpec",
        ),
    ],
)
@asynchronous
async def test_what_no_schema_kept_out_fails_once(
    path: tuple[str, ...], value: Any, reason: str
) -> None:
    async with cluster_of_one() as harness:
        broken = job()
        place = broken["spec"]
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
        await harness.server.add(broken)
        await harness.settle()

        status = harness.status()
        failed = harness.condition("Failed")
        assert (failed["status"], failed["reason"]) == ("True", reason)
        assert status["phase"] == "Failed"
        assert path[-1] in failed["message"] or "spec." in failed["message"]
        before = len(harness.server.requests)
        harness.operator.loop.enqueue(("vision", "digits"))
        await harness.settle()
        assert len(harness.server.requests) == before


@pytest.mark.parametrize(
    "answer",
    [
        Refusal(
            422,
            "Invalid",
            'Pod "w" is invalid: spec.tolerations[0]: Invalid value',
            details={"causes": [{"field": "spec.tolerations[0]"}]},
        ),
        Refusal(
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go '
            "struct field EnvVar.spec.containers.env.value of type string",
        ),
    ],
)
@asynchronous
async def test_a_pod_that_the_api_server_will_never_take_fails_the_job(answer: Refusal) -> None:
    async with cluster_of_one() as harness:
        harness.server.refuse(
            answer,
            lambda asked: creates_a_pod(asked) and "worker" in asked.body["metadata"]["name"],
        )
        await harness.server.add(job())
        await harness.server.until(lambda: harness.status().get("phase") == "Failed")
        await harness.settle()

        failed = harness.condition("Failed")
        assert failed["reason"] == "InvalidTemplate"
        assert str(answer) in failed["message"]
        assert harness.pods() == []


@asynchronous
async def test_a_pod_that_a_policy_denies_for_now_is_tried_again() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(job())
        await harness.settle()
        await harness.run_pods()
        await harness.settle()
        denied = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not on Mondays"
        refused = harness.server.refuse(
            Refusal(422, "Invalid", denied, details={"causes": [{"message": denied}]}),
            creates_a_pod,
            times=5,
        )
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        await harness.finish_deleting()
        await harness.server.until(lambda: len(refused) == 5)
        while harness.status()["phase"] != "Running":
            await harness.let_pass(60)
            await harness.run_pods()

        assert harness.status()["restarts"] == 1
        assert harness.events().count("ApiServerRefused") == 1


@asynchronous
async def test_a_quota_that_stays_too_small_is_told_once_however_often_it_is_tried() -> None:
    async with cluster_of_one() as harness:

        async def full(asked: Request) -> None:
            if creates_a_pod(asked) and asked.body["metadata"]["name"].endswith("worker-1"):
                name, used = asked.body["metadata"]["name"], len(harness.pods())
                raise Refusal(403, "Forbidden", f'pods "{name}" is forbidden: used: pods={used}')

        harness.server.faults.append(full)
        await harness.server.add(job())
        while harness.events().count("CreationCutOff") < 4:
            await harness.let_pass(600)
        assert harness.events().count("ApiServerRefused") == 1

        harness.server.faults.clear()
        while harness.status()["phase"] != "Running":
            await harness.let_pass(600)
            await harness.run_pods()
        harness.server.faults.append(full)
        await harness.end_pod(harness.pods()[0], code=1)
        await harness.settle()
        await harness.finish_deleting()
        await harness.server.until(lambda: harness.events().count("ApiServerRefused") == 2)


@pytest.mark.parametrize("policy", [{}, {"backoffLimit": "none"}, "none"])
@asynchronous
async def test_a_running_job_that_becomes_invalid_keeps_its_pods(policy: Any) -> None:
    async with cluster_of_one() as harness:
        await started(harness)

        def edit(item: Manifest) -> None:
            item["spec"]["training"]["batchSize"] = "many"
            item["spec"]["runPolicy"] = policy

        await harness.server.change("ImageNetJob", "digits", edit)
        await harness.settle()

        assert harness.status()["phase"] == "Running"
        assert "spec.training.batchSize" in harness.condition("Created")["message"]
        assert harness.pods() == FIRST
        assert not any(
            "deletionTimestamp" in item["metadata"] for item in harness.server.all("Pod")
        )


@asynchronous
async def test_a_failure_is_recorded_however_often_that_fails() -> None:
    async with cluster_of_one() as harness:
        starting = Refusal(503, "ServiceUnavailable", "the API server is starting")
        refused = harness.server.refuse(starting, writes_status, times=2)
        broken = job()
        broken["spec"]["training"]["epochs"] = "many"
        await harness.server.add(broken)
        await harness.server.until(lambda: harness.status().get("phase") == "Failed")

        assert len(refused) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Refusal(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        Refusal(422, "Invalid", "status.training.members[0].message: Too long: may not be more"),
        Refusal(500, "InternalError", "etcdserver: request is too large"),
        Refusal(
            500, "InternalError", "rpc error: trying to send message larger than max (2 vs. 1)"
        ),
    ],
)
@asynchronous
async def test_a_status_that_is_too_large_is_written_without_words(answer: Refusal) -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        refused = harness.server.refuse(
            answer, lambda asked: writes_status(asked) and "the cause" in str(asked.body["status"])
        )

        def explain(item: Manifest) -> None:
            ended = item["status"]["containerStatuses"][0]["state"]["terminated"]
            ended["message"] = "x" * 900 + "\n" + "y" * 600 + " the cause"

        # Both members end before the operator hears of one of them.
        harness.operator.loop.debounce_seconds = 3600
        await harness.end_pod("digits-r0-worker-0")
        await harness.server.change("Pod", "digits-r0-worker-0", explain)
        await harness.end_pod("digits-r0-worker-1", code=1)
        await harness.settle()
        await harness.finish_deleting()
        await harness.settle()

        assert refused
        assert harness.status()["restarts"] == 1
        assert harness.pods() == SECOND
        assert harness.events().count("ApiServerRefused") == 0


@asynchronous
async def test_a_status_that_is_refused_is_reported_once_and_written_again() -> None:
    async with cluster_of_one() as harness:
        await started(harness)
        refused = harness.server.refuse(
            Refusal(422, "Invalid", "spec.training.framework: Unsupported value"),
            writes_status,
            times=4,
        )
        await harness.end_pods()
        await harness.server.until(lambda: harness.status()["phase"] == "Succeeded")
        await harness.settle()

        assert len(refused) == 4
        assert harness.events().count("ApiServerRefused") == 1


@asynchronous
async def test_a_template_is_judged_by_the_profile_of_the_operator() -> None:
    strict = job()
    strict["spec"]["training"]["workers"]["template"] = {"spec": {"nodeName": "n1"}}
    async with cluster_of_one({"templateProfile": "strict"}) as harness:
        await harness.server.add(strict)
        await harness.settle()

        failed = harness.condition("Failed")
        assert (failed["status"], failed["reason"]) == ("True", "InvalidTemplate")
        assert "spec.training.workers.template.spec.nodeName: is refused" in failed["message"]
        assert harness.pods() == []


QUOTA = Refusal(403, "Forbidden", 'jobs.batch "digits-upload" is forbidden: exceeded quota: jobs')
INVALID = Refusal(
    422,
    "Invalid",
    'Job.batch "digits-upload" is invalid: spec.template.spec.tolerations[0]: Invalid value',
    details={"causes": [{"field": "spec.template.spec.tolerations[0]"}]},
)


@pytest.mark.parametrize("answer", [QUOTA, INVALID])
@asynchronous
async def test_an_upload_that_is_refused_is_a_condition_of_a_job_that_has_succeeded(
    answer: Refusal,
) -> None:
    async with cluster_of_one() as harness:
        harness.server.refuse(answer, lambda asked: (asked.verb, asked.kind) == ("create", "Job"))
        upload = {"output": {"upload": {"s3": BUCKET}}}
        await started(harness, training=upload, run_policy={"startDeadlineSeconds": 900})
        await harness.end_pods()
        await harness.server.until(
            lambda: any(item["type"] == "ModelUploaded" for item in harness.status()["conditions"])
        )
        uploaded = harness.condition("ModelUploaded")
        assert uploaded["status"] == "False"
        assert_says(uploaded["message"], "refuses it", str(answer)[:40])

        while "upload" not in harness.status():
            await harness.let_pass(60)
        assert harness.clock.ahead.total_seconds() > 840
        assert "UploadFailed" in harness.events()
        harness.server.faults.clear()
        while harness.server.get("Job", "digits-upload") is None:
            await harness.let_pass(60)
        await harness.settle()
        assert harness.condition("ModelUploaded")["reason"] == "Uploading"
        assert harness.status()["phase"] == "Succeeded"
        assert not any(item["type"] == "Failed" for item in harness.status()["conditions"])
        assert "InvalidTemplate" not in harness.events()
