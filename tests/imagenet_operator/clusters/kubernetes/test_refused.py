"""Jobs that cannot be worked on: refused by the operator, or by the API server for ever."""

from typing import Any

import pytest

from support.api_requests import Refusal, Request, creates_a_pod, writes_status
from support.asynchronous import asynchronous
from support.operator_harness import Harness, claim, cluster_of_one, job

Manifest = dict[str, Any]


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("training", "epochs"), "many", "InvalidSpec"),
        (("training", "batchSize"), 511, "InvalidSpec"),
        (("nonsense",), {}, "InvalidSpec"),
        (("runPolicy",), {"cleanPodPolicy": "Some"}, "InvalidSpec"),
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
            {"replicas": 0, "template": {"spec": {"restartPolicy": "Always"}}},
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


async def became_unreadable(harness: Harness, policy: Any) -> None:
    """Let a running job become what no version of this operator can read."""
    await harness.server.add(job())
    await harness.settle()
    await harness.run_pods()
    await harness.settle()
    await harness.end_pod("digits-r0-worker-1")
    await harness.settle()

    def edit(item: Manifest) -> None:
        item["spec"]["training"]["framework"] = "Caffe"
        item["spec"]["runPolicy"] = policy

    await harness.server.change("ImageNetJob", "digits", edit)


def leaving(harness: Harness) -> list[str]:
    """The names of the pods that are being deleted."""
    return [
        item["metadata"]["name"]
        for item in harness.server.all("Pod")
        if "deletionTimestamp" in item["metadata"]
    ]


RUNNING = [f"digits-r0-{member}" for member in ("scheduler-0", "server-0", "server-1", "worker-0")]


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [
        ({}, RUNNING),
        ({"cleanPodPolicy": "Running"}, RUNNING),
        ({"cleanPodPolicy": "All"}, [*RUNNING, "digits-r0-worker-1"]),
        ({"cleanPodPolicy": "None"}, []),
        ({"cleanPodPolicy": "None", "fromTheFuture": 1}, []),
        ({"cleanPodPolicy": "Some"}, RUNNING),
        ("none", RUNNING),
    ],
)
@asynchronous
async def test_a_running_job_that_cannot_be_read_any_more_frees_what_it_holds(
    policy: Any, deleted: list[str]
) -> None:
    async with cluster_of_one() as harness:
        await became_unreadable(harness, policy)
        await harness.settle()

        assert harness.condition("Failed")["reason"] == "InvalidSpec"
        assert harness.events().count("InvalidSpec") == 1
        assert leaving(harness) == deleted
        writes = [(item.verb, item.subresource) for item in harness.server.writes()]
        deletes = [index for index, write in enumerate(writes) if write[0] == "delete"]
        last_record = max(index for index, write in enumerate(writes) if write[1] == "status")
        assert all(index > last_record for index in deletes)


@asynchronous
async def test_a_preparation_that_cannot_be_read_any_more_is_stopped() -> None:
    async with cluster_of_one(claims=[claim(name="raw"), claim(name="shared")]) as harness:
        whole = job()
        whole["spec"]["dataset"] = {
            "source": {"volume": {"claimName": "raw", "path": "a.tar"}},
            "volume": {"claimName": "shared"},
        }
        await harness.server.add(whole)
        await harness.settle()
        assert harness.server.get("Job", "digits-index") is not None
        await harness.server.change(
            "ImageNetJob", "digits", lambda item: item["spec"].update(nonsense={})
        )
        await harness.settle()

        assert harness.status()["phase"] == "Failed"
        assert harness.server.get("Job", "digits-index") is None


@asynchronous
async def test_what_becomes_of_it_is_recorded_however_often_that_fails() -> None:
    async with cluster_of_one() as harness:
        starting = Refusal(503, "ServiceUnavailable", "the API server is starting")
        refused = harness.server.refuse(starting, writes_status, times=2)
        broken = job()
        broken["spec"]["nonsense"] = {}
        await harness.server.add(broken)
        await harness.server.until(lambda: harness.status().get("phase") == "Failed")

        assert len(refused) == 2


@asynchronous
async def test_a_status_that_is_refused_itself_is_told_once_and_touches_nothing() -> None:
    async with cluster_of_one() as harness:
        refused = harness.server.refuse(
            Refusal(422, "Invalid", "spec.training.framework: Unsupported value"),
            lambda asked: writes_status(asked) and asked.body["status"]["phase"] == "Failed",
        )
        await became_unreadable(harness, {})
        await harness.settle()
        assert len(refused) == 1
        harness.operator.loop.enqueue(("vision", "digits"))
        await harness.settle()

        assert len(refused) == 2
        assert harness.events().count("ApiServerRefused") == 1
        assert len(harness.pods()) == 5
        assert not any(
            "deletionTimestamp" in item["metadata"] for item in harness.server.all("Pod")
        )
