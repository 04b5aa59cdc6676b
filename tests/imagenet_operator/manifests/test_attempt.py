"""One attempt's Service and pods: who is there, under which names, and who can find whom."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.manifests import attempt, template
from imagenet_operator.manifests.attempt import training_hash
from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.resource import ImageNetJob
from support.job_table import JOBS, TABLE, members, read, variables
from support.random_jobs import jobs

Manifest = dict[str, Any]
ATTEMPTS = st.integers(0, 10**6)


def roles(manifests: list[Manifest]) -> list[tuple[str, int]]:
    labels = [pod["metadata"]["labels"] for pod in manifests]
    return [
        (
            item["training.imagenet.dev/job-role"],
            int(item["training.imagenet.dev/replica-index"]),
        )
        for item in labels
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "defaults",
            [("scheduler", 0), ("server", 0), ("server", 1), ("worker", 0), ("worker", 1)],
        ),
        ("asynchronous", [("scheduler", 0), ("server", 0), ("worker", 0), ("worker", 1)]),
        ("single", [("worker", 0)]),
        ("single with gpus", [("worker", 0)]),
    ],
)
def test_an_attempt_has_all_members_of_its_strategy(
    name: str, expected: list[tuple[str, int]]
) -> None:
    assert roles(members(JOBS[name])) == expected


@given(job=jobs(), number=ATTEMPTS)
def test_the_service_comes_first_and_names_every_member(job: ImageNetJob, number: int) -> None:
    service, *_ = attempt.build(job, number)
    pods = members(job, number)
    assert service["kind"] == "Service"
    assert service["metadata"]["name"] == f"{job.metadata.name}-r{number}"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for pod in pods:
        assert pod["kind"] == "Pod"
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["hostname"] == pod["metadata"]["name"]
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]


@given(job=jobs(), number=ATTEMPTS)
def test_everything_is_the_jobs_and_nothing_is_called_alike(job: ImageNetJob, number: int) -> None:
    manifests = attempt.build(job, number)
    names = {(item["kind"], item["metadata"]["name"]) for item in manifests}
    names |= {(i["kind"], i["metadata"]["name"]) for i in attempt.build(job, number + 1)}
    assert len(names) == 2 * len(manifests)
    for item in manifests:
        assert item["metadata"]["namespace"] == job.metadata.namespace
        assert [owner["uid"] for owner in item["metadata"]["ownerReferences"]] == [job.metadata.uid]
        assert item["metadata"]["labels"]["training.imagenet.dev/attempt"] == str(number)


@given(job=jobs(), number=ATTEMPTS)
def test_building_is_repeatable_and_shares_nothing(job: ImageNetJob, number: int) -> None:
    first = attempt.build(job, number)
    kept = copy.deepcopy(first)
    for item in first:
        item["metadata"]["labels"].clear()
        if item["kind"] == "NetworkPolicy":
            item["spec"]["podSelector"]["matchLabels"].clear()
        if item["kind"] == "Pod":
            item["spec"]["containers"][0]["env"].clear()
            item["spec"]["volumes"].clear()
    assert attempt.build(job, number) == kept


@pytest.mark.parametrize(
    ("name", "roles"), [("defaults", 3), ("horovod", 2), ("multi-worker mirrored", 1)]
)
def test_a_role_of_any_size_is_merged_and_judged_once(
    name: str, roles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = copy.deepcopy(TABLE[name])
    document["spec"]["training"] |= {"batchSize": 300, "workers": {"replicas": 300}}
    judged: list[str] = []
    judge = template.judge

    def counted(spec: Manifest, path: str, **given: Any) -> None:
        judged.append(path)
        judge(spec, path, **given)

    monkeypatch.setattr(template, "judge", counted)

    pods = members(read(document))

    assert len(pods) >= 300
    assert len(judged) == roles
    assert len({str(pod["spec"]["containers"][0]["env"]) for pod in pods[-300:]}) in (1, 300)


def test_pods_wait_behind_a_gate_only_when_the_gang_waits() -> None:
    gated = members(JOBS["waits for its gang"])
    assert {pod["spec"]["schedulingGates"][0]["name"] for pod in gated} == {
        "training.imagenet.dev/gang"
    }
    assert all("schedulingGates" not in pod["spec"] for pod in attempt.build(JOBS["defaults"], 0))


def test_every_member_knows_its_attempt_and_what_is_trained() -> None:
    job = JOBS["defaults"]
    for pod in members(job, 7):
        env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
        assert env["IMAGENET_ATTEMPT"] == "7"
        assert env["IMAGENET_SPEC_HASH"] == training_hash(job)


def test_an_attempt_without_a_dataset_is_a_mistake_of_the_caller() -> None:
    job = JOBS["defaults"]
    early = job.model_copy(update={"status": job.status.model_copy(update={"dataset": None})})
    with pytest.raises(ValueError, match="no key yet"):
        attempt.build(early, 0)


def test_a_pod_that_needs_no_scheduler_cannot_wait_for_its_gang() -> None:
    """The API server takes no pod with a gate and a node."""
    document = copy.deepcopy(TABLE["waits for its gang"])
    document["spec"]["training"]["workers"]["template"] = {"spec": {"nodeName": "a"}}
    with pytest.raises(InvalidTemplate, match="write nodeSelector, or gang: Timeout") as caught:
        attempt.build(read(document), 0)
    assert caught.value.path == "spec.training.workers.template.spec.nodeName"

    document["spec"]["runPolicy"]["schedulingPolicy"]["gang"] = "Timeout"
    assert attempt.build(read(document), 0)[-1]["spec"]["nodeName"] == "a"


def test_an_elastic_attempt_has_the_largest_number_of_workers_that_divides() -> None:
    pods = members(JOBS["elastic with gpus"])
    assert roles(pods) == [("worker", index) for index in range(5)]
    found = [variables(pod["spec"]["containers"][0]) for pod in pods]
    assert {item["WORLD_SIZE"] for item in found} == {"10"}


def test_an_attempt_with_fewer_workers_trains_the_same_batch() -> None:
    job = JOBS["elastic with gpus"]
    pods = [item for item in attempt.build(job, 7, workers=4) if item["kind"] == "Pod"]
    containers = [pod["spec"]["containers"][0] for pod in pods]
    assert roles(pods) == [("worker", index) for index in range(4)]
    assert {variables(found)["WORLD_SIZE"] for found in containers} == {"8"}
    assert {variables(found)["IMAGENET_SPEC_HASH"] for found in containers} == {training_hash(job)}
    for found in containers:
        position = found["args"].index("--batch-size")
        assert int(found["args"][position + 1]) * 8 == 1000
