"""The Jobs of a preparation as the operator observes them: progress, result, failure."""

from __future__ import annotations

from datetime import datetime

import pytest

from imagenet_operator.manifests import dataset, labels
from imagenet_operator.reconcile.observe import sort
from imagenet_operator.reconcile.types import NO_PODS, Reference
from support.observed_objects import (
    JOB,
    OUT_OF_MEMORY,
    Manifest,
    condition,
    ended,
    living,
    state,
)
from support.sentences import assert_says


def job_pod(job: Manifest, name: str, status: Manifest) -> Manifest:
    owner = {"kind": "Job", "name": "digits-pack", "uid": job["metadata"]["uid"]}
    metadata: Manifest = {"name": name, "uid": f"uid-of-{name}", "labels": {}}
    metadata["ownerReferences"] = [{**owner, "controller": True}]
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": status}


def pack(status: Manifest) -> Manifest:
    assert JOB.status.dataset is not None
    return living(dataset.pack_job(JOB, JOB.status.dataset), status)


def test_a_job_in_the_middle_of_its_work() -> None:
    found = sort(JOB, [pack({"active": 2, "succeeded": 3, "failed": 1})]).jobs["pack"]
    assert (found.active, found.succeeded, found.failed, found.completions) == (2, 3, 1, 9)
    assert (found.complete, found.failure, found.message, found.finished) == (
        False,
        None,
        None,
        False,
    )
    assert found.reference == Reference("Job", "digits-pack", "uid-of-digits-pack")


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([], "2026-07-24T10:00:00Z"),
        ([("Suspended", "False", "2026-07-24T13:00:00Z")], "2026-07-24T13:00:00Z"),
    ],
    ids=["created", "resumed"],
)
def test_a_job_waits_for_its_pods_since_it_may_have_some(
    conditions: list[tuple[str, str, str]], since: str
) -> None:
    job = pack(
        {
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": time}
                for kind, status, time in conditions
            ]
        }
    )
    job["metadata"]["creationTimestamp"] = "2026-07-24T10:00:00Z"
    (waiting,) = sort(JOB, [job]).waiting
    assert (waiting.reason, waiting.since) == (NO_PODS, datetime.fromisoformat(since))


def test_a_jobs_result_is_the_message_of_its_pod() -> None:
    job = pack(condition("Complete"))
    failed = job_pod(job, "p-0", {"phase": "Failed", **state(terminated=ended(1, "first try"))})
    done = job_pod(job, "p-1", {"phase": "Succeeded", **state(terminated=ended(0, '{"a": 1}\n'))})
    found = sort(JOB, [failed, job, done]).jobs["pack"]
    assert (found.complete, found.finished, found.message) == (True, True, '{"a": 1}')
    assert sort(JOB, [job, failed]).jobs["pack"].message is None
    silent = job_pod(job, "p-1", {"phase": "Succeeded"})
    assert sort(JOB, [job, silent]).jobs["pack"].message == ""


def held_pod(job: Manifest, name: str, code: int, **status: object) -> Manifest:
    """A pod whose program has ended beside an injected container that runs on."""
    main = {"name": "main", "state": {"terminated": ended(code, '{"a": 1}')}}
    mesh = {"name": "mesh", "state": {"running": {}}}
    return job_pod(job, name, {"phase": "Running", "containerStatuses": [main, mesh], **status})


def test_a_program_has_ended_whatever_other_containers_of_its_pod_do() -> None:
    job = pack({"active": 2, "succeeded": 7})
    failed, done = held_pod(job, "p-0", 1), held_pod(job, "p-1", 0)
    found = sort(JOB, [job, failed, done]).jobs["pack"]
    assert (found.succeeded, found.complete, found.finished) == (8, False, False)
    assert [(pod.name, pod.containers, pod.succeeded) for pod in found.held] == [
        ("p-0", ("mesh",), False),
        ("p-1", ("mesh",), True),
    ]
    found = sort(JOB, [job, held_pod(job, "p-0", 0), done]).jobs["pack"]
    assert (found.succeeded, found.complete, found.message) == (9, True, '{"a": 1}')
    assert (found.has_ended, found.finished) == (True, False), "its pods still run"


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        # A moment later the phase follows.
        {"containerStatuses": [{"name": "main", "state": {"terminated": ended(0)}}]},
        # The kubelet ends a native sidecar after the program.
        {
            "containerStatuses": [{"name": "main", "state": {"terminated": ended(0)}}],
            "initContainerStatuses": [{"name": "mesh", "state": {"running": {}}}],
        },
        {"containerStatuses": [{"name": "mesh", "state": {"running": {}}}]},
    ],
)
def test_other_pods_are_not_held(change: Manifest) -> None:
    job = pack({"active": 1})
    assert sort(JOB, [job, held_pod(job, "p-0", 0, **change)]).jobs["pack"].held == ()


def test_a_held_pod_that_is_deleted_goes() -> None:
    job = pack({"active": 1})
    pod = held_pod(job, "p-0", 0)
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert sort(JOB, [job, pod]).jobs["pack"].held == ()


def test_pods_that_are_still_ending_are_active() -> None:
    job = pack({"active": 0})
    pod = job_pod(job, "p-0", {"phase": "Running"})
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert sort(JOB, [job, pod]).jobs["pack"].active == 1
    pod["status"] = {"phase": "Failed", **state(terminated=ended(143, ""))}
    assert sort(JOB, [job, pod]).jobs["pack"].active == 0


@pytest.mark.parametrize(
    ("node", "deleted", "stranded"),
    [("lost", True, True), ("lost", False, False), ("a", True, False), (None, True, False)],
)
def test_a_job_is_stranded_by_a_pod_that_cannot_end(
    node: str | None, deleted: bool, stranded: bool
) -> None:
    job = pack({"active": 1})
    pod = job_pod(job, "p-0", {"phase": "Running"})
    pod["spec"] = {"nodeName": node} if node else {}
    if deleted:
        pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    found = sort(JOB, [job, pod], unreachable_nodes=frozenset({"lost"})).jobs["pack"]
    assert found.stranded is stranded


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        ([("p-0", "2026-01-02T03:04:05Z", "early"), ("p-1", None, "unknown when")], "early"),
        (
            [("p-0", "2026-01-02T03:04:06Z", "late"), ("p-1", "2026-01-02T03:04:05Z", "early")],
            "late",
        ),
        ([("p-0", "2026-01-02T03:04:05Z", None)], "too many failures"),
        ([], "too many failures"),
    ],
)
def test_a_jobs_failure_is_the_last_termination_message(
    words: list[tuple[str, str | None, str | None]], failure: str
) -> None:
    job = pack(condition("Failed", reason="BackoffLimitExceeded", message="too many failures"))
    left = [
        job_pod(job, name, {"phase": "Failed", **state(terminated=ended(1, message, finished))})
        for name, finished, message in words
    ]
    assert sort(JOB, [*left, job]).jobs["pack"].failure == failure


def test_a_condition_that_says_nothing_is_a_failure_all_the_same() -> None:
    assert sort(JOB, [pack(condition("Failed"))]).jobs["pack"].failure == "the Job failed"


def test_a_preparation_that_used_too_much_memory_says_what_to_raise() -> None:
    job = pack(condition("Failed", reason="BackoffLimitExceeded"))
    killed = job_pod(job, "p-0", {"phase": "Failed", **state(terminated=OUT_OF_MEMORY)})
    killed["metadata"]["labels"] = {labels.JOB_ROLE: "pack"}
    failure = sort(JOB, [job, killed]).jobs["pack"].failure
    where = "spec.dataset.preprocessing.template"
    assert_says(failure or "", "OOMKilled", "resources.limits.memory", where)
