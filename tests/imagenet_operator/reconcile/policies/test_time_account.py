"""The account of a job's time: every second has a phase, also when reconciles are missed."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.reconcile.policies import time_account
from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import (
    AttemptOutcome,
    Clock,
    Condition,
    ConditionType,
    MemberStatus,
    Status,
    TrainingStatus,
)
from imagenet_spec.resource.time_status import seconds_of
from support.attempt_members import NOW, later, recorded
from support.job_table import manifest
from support.samples import sample


def condition(kind: ConditionType) -> Condition:
    return Condition(type=kind, status="True", reason="Test", last_transition_time=NOW)


def attempt(number: int = 0, start: float = 0, **fields: Any) -> TrainingStatus:
    return TrainingStatus(attempt=number, start_time=later(start), **fields)


def running(number: int = 0, start: float = 0) -> TrainingStatus:
    return attempt(number, start, bound_time=later(start), running_time=later(start))


class Job:
    """A job of 2 workers with 4 GPUs each, whose status the test writes; created at `NOW`."""

    def __init__(self) -> None:
        document = manifest(training={"workers": {"replicas": 2, "gpus": 4}})
        document["metadata"]["creationTimestamp"] = NOW.isoformat()
        self.job = ImageNetJob.model_validate(document)

    def reconcile(
        self, seconds: float, reported: dict[str, float] | None = None, **changes: Any
    ) -> Status:
        """Return the status of a reconcile that writes none."""
        changes = {"start_time": NOW, **changes}
        training = changes.get("training") or self.job.status.training
        heard = None
        if reported is not None and training is not None:
            heard = sample(later(seconds), attempt=training.attempt, seconds=reported)
        status = self.job.status.model_copy(update=changes)
        return time_account.counted(self.job, status, heard, later(seconds))

    def write(
        self, seconds: float, reported: dict[str, float] | None = None, **changes: Any
    ) -> None:
        status = self.reconcile(seconds, reported, **changes)
        self.job = self.job.model_copy(update={"status": status})

    def phases(self) -> dict[str, float]:
        assert self.job.status.time is not None
        return seconds_of(self.job.status.time.phases)


def first_attempt(job: Job) -> None:
    """Prepare, then train until second 136."""
    fetching = condition("DatasetReady").model_copy(
        update={"status": "False", "reason": "Fetching"}
    )
    job.write(10, preparation=Clock(since=later(10)), conditions=(fetching,))
    packing = fetching.model_copy(update={"reason": "Packing"})
    job.write(18, preparation=Clock(since=later(10)), conditions=(packing,))
    job.write(40, preparation=Clock(seconds=30), conditions=(condition("DatasetReady"),))
    job.write(41, training=attempt(start=41))
    job.write(61, training=attempt(start=41, bound_time=later(61)))
    first = attempt(start=41, bound_time=later(61), running_time=later(76))
    job.write(76, training=first)
    job.write(136, {"starting": 5, "joining": 2, "stepping": 50}, training=first)


def second_attempt(job: Job) -> None:
    """Fail at second 140, and train to the end at 192."""
    failed = AttemptOutcome(time=later(140), reason="Failed")
    restarting = (condition("DatasetReady"), condition("Restarting"))
    ended = job.job.status.training
    assert ended is not None
    job.write(140, training=ended.model_copy(update={"outcome": failed}), conditions=restarting)
    job.write(150, training=attempt(1, 150))
    job.write(152, training=running(1, 150))
    job.write(170, {"starting": 4, "redone": 8, "stepping": 4}, training=running(1, 150))
    message = (
        '{"event": "finished", "epochs": 2,'
        ' "seconds": {"starting": 4, "redone": 8, "stepping": 24, "exporting": 3, "new": 9}}'
    )
    members = (recorded("worker-0", "Succeeded", message=message),)
    done = running(1, 150).model_copy(update={"members": members})
    job.write(193, training=done, completion_time=later(192))


def test_a_whole_job() -> None:
    job = Job()
    first_attempt(job)
    second_attempt(job)
    assert job.phases() == {
        "queueing": 10 + 1 + 20 + 2,
        "fetching": 8,
        "preparing": 22,
        "pulling": 15,
        "starting": 9,
        "joining": 2,
        "stepping": 50 + 24,
        "redone": 8,
        "exporting": 3,
        "restarting": 10,
        "unreported": 7 + 1,
    }
    assert sum(job.phases().values()) == 192
    time = job.job.status.time
    assert time is not None
    assert (time.phase, time.counted_until) == (None, later(192))
    assert time.goodput == pytest.approx(74 / 192, abs=1e-4)
    assert time.gpu_hours == pytest.approx(8 * (15 + 60 + 4 + 40) / 3600, abs=1e-3)


def test_a_repeated_or_a_skipped_reconcile_counts_nothing_twice() -> None:
    job = Job()
    job.write(0, training=running())
    for seconds in (10, 20, 30):
        job.reconcile(seconds, {"stepping": float(seconds)})
    for _ in range(2):
        job.write(40, {"stepping": 38.0})
    assert job.phases() == {"stepping": 38, "unreported": 2}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param({"joining": 12.0}, {"queueing": 10, "joining": 12, "pulling": 8}, id="early"),
        pytest.param({}, {"queueing": 10, "pulling": 20}, id="silent"),
        pytest.param({"joining": 25.0}, {"queueing": 5, "joining": 25}, id="before the nodes"),
        pytest.param({"joining": 1e6}, {"queueing": 10, "pulling": 20}, id="longer than itself"),
        pytest.param({"joining": -1.0, "other": 3.0}, {"queueing": 10, "pulling": 20}, id="wrong"),
    ],
)
def test_rank_0_reports_before_all_members_run(
    reported: dict[str, float], expected: dict[str, float]
) -> None:
    job = Job()
    bound = attempt(bound_time=later(10))
    job.write(10, training=bound)
    job.write(30, reported, training=bound)
    assert job.phases() == expected


def test_another_worker_turns_out_to_be_rank_0() -> None:
    job = Job()
    job.write(0, training=running())
    job.write(20, {"starting": 5.0, "joining": 15.0})
    job.write(30, {"starting": 8.0, "joining": 12.0, "stepping": 10.0})
    assert job.phases() == {"starting": 8, "joining": 12, "stepping": 10}


def test_a_suspension_does_not_lower_the_goodput() -> None:
    job = Job()
    job.write(0, training=running())
    job.write(100, {"stepping": 100.0}, conditions=(condition("Suspended"),))
    job.write(300)
    time = job.job.status.time
    assert time is not None
    assert job.phases() == {"stepping": 100, "suspended": 200}
    assert time.goodput == 1
    assert time.gpu_hours == pytest.approx(8 * 100 / 3600, abs=1e-3)


@pytest.mark.parametrize(("kind", "goodput"), [("Failed", 0.75), ("Succeeded", 1)])
def test_steps_since_the_checkpoint_of_a_failed_job_are_no_goodput(
    kind: ConditionType, goodput: float
) -> None:
    job = Job()
    job.write(0, training=running())
    training = running().model_copy(update={"unsaved_seconds": 25.0})
    job.write(100, {"stepping": 100.0}, training=training)
    assert job.job.status.time is not None
    assert job.job.status.time.goodput == 1
    job.write(100, completion_time=later(100), conditions=(condition(kind),))
    assert job.job.status.time.goodput == goodput


def test_a_job_of_an_older_operator_begins_with_time_that_is_not_known() -> None:
    job = Job()
    job.job = job.job.model_copy(update={"status": Status(start_time=later(5), training=running())})
    job.write(50, {"stepping": 20.0})
    assert job.phases() == {"stepping": 20, "unreported": 30}


def test_the_account_of_a_finished_job_does_not_change() -> None:
    job = Job()
    job.write(0, training=running())
    job.write(10, completion_time=later(10))
    finished = job.job.status
    assert job.reconcile(500, completion_time=later(10)) == finished


def test_only_a_new_phase_is_worth_a_write() -> None:
    job = Job()
    job.write(0, training=running())
    status = job.job.status
    assert not is_worth_a_write(status, job.reconcile(1000, {"stepping": 990.0}))
    members: tuple[MemberStatus, ...] = ()
    ended = running().model_copy(
        update={"outcome": AttemptOutcome(time=NOW, reason="x"), "members": members}
    )
    assert is_worth_a_write(status, job.reconcile(1000, training=ended))
