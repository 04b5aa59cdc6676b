"""The Job controller by itself: time is an argument, pods are only said to have ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.clusters.local.jobs import (
    INDEX_ANNOTATION,
    JobController,
    Step,
    failure_action,
    ranges,
)

Manifest = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Run:
    """A Job, its controller, and pods that do what a test says."""

    def __init__(self, *, slots: int = 100, **spec: Any) -> None:
        template = {"metadata": {}, "spec": {"containers": [{"name": "main"}]}}
        metadata = {"name": "j", "uid": "job"}
        self.job: Manifest = {
            "metadata": metadata,
            "spec": {"template": template, **spec},
            "status": {},
        }
        self.controller = JobController(self.job, slots)
        self.pods: list[Manifest] = []
        self.now = START
        self.serial = 0

    def step(self, seconds: float = 0) -> Step:
        """Let time pass, and carry out what the controller wants."""
        self.now += timedelta(seconds=seconds)
        step = self.controller.step(self.pods, self.now)
        for pod in step.create:
            self.serial += 1
            pod["metadata"]["uid"] = f"pod-{self.serial}"
            pod["status"] = {"phase": "Running"}
            self.pods.append(pod)
        for pod in step.delete:
            pod["metadata"]["deletionTimestamp"] = "now"
        return step

    @property
    def active(self) -> list[Manifest]:
        return [pod for pod in self.pods if pod["status"]["phase"] == "Running"]

    def end(self, pod: Manifest, code: int, condition: str | None = None) -> None:
        state = {"terminated": {"exitCode": code}}
        phase = "Failed" if code else "Succeeded"
        pod["status"] = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
        if condition is not None:
            pod["status"]["conditions"] = [{"type": condition, "status": "True"}]

    def condition(self, kind: str) -> Manifest | None:
        found = self.job["status"].get("conditions", ())
        return next((item for item in found if item["type"] == kind), None)


def test_failures_are_followed_by_longer_and_longer_waits() -> None:
    run = Run(backoffLimit=20)
    waits = []
    run.step()
    for _ in range(12):
        run.end(run.active[0], 1)
        step = run.step()
        assert not step.create
        assert step.again_at is not None
        waits.append((step.again_at - run.now).total_seconds())
        assert not run.step(waits[-1] - 0.001).create, "not a moment too early"
        assert len(run.step(0.001).create) == 1

    assert waits[:5] == [1, 2, 4, 8, 16]
    assert waits[-1] == 360


def indexed(**spec: Any) -> Run:
    """Return a Job of three indexes at a time, each of which may fail twice."""
    limits = {"backoffLimit": 100, "backoffLimitPerIndex": 2, "maxFailedIndexes": 0}
    return Run(completionMode="Indexed", completions=3, parallelism=3, **{**limits, **spec})


def of_index(run: Run, index: int) -> Manifest:
    return next(
        pod for pod in run.active if pod["metadata"]["annotations"][INDEX_ANNOTATION] == str(index)
    )


def test_each_index_has_waits_and_failures_of_its_own() -> None:
    run = indexed()
    run.step()
    for index in (0, 1, 2):
        run.end(of_index(run, index), 1)
    run.step()
    run.step(1)
    assert len(run.active) == 3

    run.end(of_index(run, 1), 1)
    step = run.step()
    assert step.again_at == run.now + timedelta(seconds=2)
    # Another index fails for the second time later, and waits for as long.
    run.end(of_index(run, 0), 1)
    run.step(1)
    run.step(1)
    assert of_index(run, 1) in run.active
    assert len(run.active) == 2
    run.step(1)
    assert len(run.active) == 3
    assert run.condition("Failed") is None


def test_a_job_fails_once_one_index_fails_too_often() -> None:
    run = indexed()
    run.step()
    run.end(of_index(run, 2), 0)
    for _ in range(3):
        run.end(of_index(run, 1), 1)
        run.step()
        run.step(1000)
    assert run.job["status"]["failedIndexes"] == "1"
    run.end(of_index(run, 0), 143)
    run.step()

    failed = run.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "MaxFailedIndexesExceeded"
    assert run.job["status"]["completedIndexes"] == "2"


def test_the_limit_of_all_indexes_holds_too() -> None:
    run = indexed(backoffLimit=2)
    run.step()
    for index in (0, 1, 2):
        run.end(of_index(run, index), 1)
    run.step()

    failed = run.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "BackoffLimitExceeded"


def test_pods_that_were_ignored_are_replaced_and_not_charged() -> None:
    ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    run = Run(backoffLimit=0, podFailurePolicy={"rules": [ignore]})
    run.step()
    run.end(run.active[0], 137, "DisruptionTarget")

    run.step()
    run.step(1)

    assert len(run.active) == 1
    assert run.condition("Failed") is None


def test_a_pod_is_counted_once_and_stays_counted_when_it_goes() -> None:
    run = Run(completions=2)
    run.step()
    run.end(run.active[0], 0)
    run.step()
    run.pods = run.active

    run.step()

    assert run.job["status"]["succeeded"] == 1
    assert len(run.active) == 1


def test_a_job_that_takes_too_long_fails() -> None:
    run = Run(activeDeadlineSeconds=10)
    assert run.step().again_at == START + timedelta(seconds=10)

    step = run.step(10)

    assert step.delete == tuple(run.pods)
    assert run.condition("Failed") is None, "not before the pods have ended"
    run.end(run.pods[0], 143)
    run.step()
    failed = run.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "DeadlineExceeded"


def test_the_machine_limits_parallelism() -> None:
    run = Run(slots=2, completions=5, parallelism=4)

    run.step()

    assert len(run.active) == 2


def test_pods_carry_their_index_where_programs_look() -> None:
    run = Run(completionMode="Indexed", completions=2, parallelism=2)
    run.step()

    second = run.pods[1]
    assert second["metadata"]["annotations"][INDEX_ANNOTATION] == "1"
    assert second["metadata"]["name"].startswith("j-1-")
    assert second["spec"]["hostname"] == "j-1"
    (variable,) = second["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert "env" not in run.job["spec"]["template"]["spec"]["containers"][0], "a copy was changed"


@pytest.mark.parametrize(
    ("operator", "values", "code", "matches"),
    [
        ("In", [2, 3], 3, True),
        ("In", [2, 3], 1, False),
        ("NotIn", [1], 3, True),
        ("NotIn", [1], 1, False),
        ("NotIn", [1], 0, False),
    ],
)
def test_exit_codes_match_as_kubernetes_says(
    operator: str, values: list[int], code: int, matches: bool
) -> None:
    run = Run()
    run.step()
    run.end(run.pods[0], code)
    rule = {"action": "FailJob", "onExitCodes": {"operator": operator, "values": values}}

    action = failure_action({"rules": [rule]}, run.pods[0])

    assert action == (("FailJob", 0) if matches else ("Count", None))


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1], "0-1"), ([0, 2, 3, 4, 9], "0,2-4,9")]
)
def test_completed_indexes_are_written_as_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


@given(
    completions=st.integers(1, 6),
    parallelism=st.integers(1, 4),
    limit=st.integers(0, 4),
    choices=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 3])), max_size=40),
)
def test_a_job_always_ends_right(
    completions: int, parallelism: int, limit: int, choices: list[tuple[int, int]]
) -> None:
    """Whatever pods do, in whatever order: no index twice, no pod too many, one end."""
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    run = Run(
        completionMode="Indexed",
        completions=completions,
        parallelism=parallelism,
        backoffLimit=limit,
        podFailurePolicy={"rules": [rule]},
    )
    codes = [code for _, code in choices]
    for pick, code in [*choices, *[(0, 0)] * completions]:
        run.step()  # sees what ended last
        run.step(1000)
        if not run.active:
            break
        assert len(run.active) <= parallelism
        indexes = [pod["metadata"]["annotations"][INDEX_ANNOTATION] for pod in run.active]
        assert len(set(indexes)) == len(indexes)
        run.end(run.active[pick % len(run.active)], code)
    for pod in run.active:
        run.step(1000)
        run.end(pod, 143)
    run.step(1000)

    complete, failed = run.condition("Complete"), run.condition("Failed")
    assert (complete is None) != (failed is None)
    if complete is not None:
        assert run.job["status"]["succeeded"] == completions
    else:
        assert 3 in codes or codes.count(1) > limit
