"""What a status has lost comes back from the pods and from the rest of it."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.reconcile.policies import members, version_skew
from imagenet_operator.reconcile.types import Attempt
from imagenet_spec.resource.member_groups import bounded, grouped
from imagenet_spec.resource.status import (
    Condition,
    ConditionType,
    ReplicaStatus,
    Status,
    TrainingStatus,
)
from support.attempt_members import NOW, later, recorded, seen


def condition(
    kind: ConditionType, status: str = "True", reason: str = "r", message: str = ""
) -> Condition:
    """A condition of a status."""
    fields = {"type": kind, "status": status, "reason": reason, "message": message}
    return Condition.model_validate({**fields, "last_transition_time": NOW})


def rebuilt(status: Status, **attempts: Attempt) -> Status:
    """A status after it was rebuilt, with attempts r0, r1…"""
    numbered = {int(name[1:]): attempt for name, attempt in attempts.items()}
    return version_skew.rebuilt(status, numbered, later(60))


def attempt(number: int) -> Attempt:
    """An attempt of a server and a worker, and of a pod with a role of the future."""
    return Attempt(number, (seen("server-0"), seen("worker-0"), seen("oracle-0")))


RUNNING = condition("Running", "False", "Scheduling")


@pytest.mark.parametrize(
    "status",
    [
        Status(),
        Status(conditions=(condition("Created", "False"),)),
        Status(conditions=(condition("Running", "False", "NameConflict"),)),
        Status(conditions=(condition("Running", "False", "UnsupportedSpec"),)),
        Status(conditions=(RUNNING,), training=TrainingStatus(members=(recorded("worker-0"),))),
        Status(
            conditions=(condition("Succeeded"),), completion_time=NOW, training=TrainingStatus()
        ),
        Status(
            conditions=(condition("Restarting"),), restarts=1, training=TrainingStatus(attempt=3)
        ),
    ],
)
def test_a_whole_status_stays(status: Status) -> None:
    if status.training is not None and not status.training.members:
        status = status.model_copy(update={"completion_time": NOW})
        status = status.model_copy(update={"conditions": (*status.conditions, condition("Failed"))})
    assert rebuilt(status, r0=attempt(0)) == status


def test_the_times_of_start_and_end_are_those_of_the_conditions() -> None:
    found = rebuilt(Status(conditions=(condition("Created"), condition("Failed"))))
    assert (found.start_time, found.completion_time) == (NOW, NOW)


@pytest.mark.parametrize(("phase", "kind"), [("Succeeded", "Succeeded"), (None, "Failed")])
def test_a_job_with_an_end_has_ended(phase: Any, kind: str) -> None:
    found = rebuilt(Status(completion_time=NOW, phase=phase))
    assert [(item.type, item.status) for item in found.conditions] == [(kind, "True")]


@pytest.mark.parametrize(
    "training", [None, TrainingStatus(), TrainingStatus(attempt=2), TrainingStatus(epoch=7)]
)
def test_an_attempt_is_that_of_the_newest_pods(training: TrainingStatus | None) -> None:
    found = rebuilt(Status(conditions=(RUNNING,), training=training), r1=attempt(1), r2=attempt(2))
    assert found.training is not None
    assert (found.training.attempt, found.training.outcome) == (2, None)
    assert [item.name for item in found.training.members] == ["server-0", "worker-0"]
    assert found.training.epoch == (None if training is None else training.epoch)


def test_a_large_record_without_its_groups_has_the_pods_again() -> None:
    whole = (
        recorded("worker-0", "Succeeded", message='{"event": "finished"}'),
        recorded("worker-1", "Unknown"),
        *(recorded(f"worker-{index}") for index in range(2, 501)),
    )
    single, groups = grouped(bounded(whole))
    assert ([item.name for item in single], len(groups)) == (["worker-0"], 2)
    training = TrainingStatus(members=single, replica_statuses=members.replica_statuses(whole))
    pods = tuple(seen(f"worker-{index}") for index in range(501) if index != 1)
    found = rebuilt(Status(conditions=(RUNNING,), training=training), r0=Attempt(0, pods)).training

    assert found is not None and found.outcome is None
    assert found.members[0] == single[0]
    assert [item.name for item in found.members] == [pod.name for pod in pods]
    assert not members.succeeded(found.members)


def test_a_large_record_without_groups_and_without_pods_has_lost_its_attempt() -> None:
    counts = {"worker": ReplicaStatus(active=500, succeeded=1)}
    single = recorded("worker-0", "Succeeded")
    training = TrainingStatus(members=(single,), replica_statuses=counts)
    found = rebuilt(Status(conditions=(RUNNING,), training=training)).training
    assert found is not None and found.outcome is not None
    assert (found.outcome.reason, found.members) == ("RecordLost", (single,))


def test_an_attempt_without_pods_has_the_latest_number_that_is_named() -> None:
    named = condition("Suspended", message="no pod of the job is left; the last was attempt 4")
    older = condition("Restarting", "False", message="attempt 2: worker-0 exited with 1")
    found = rebuilt(Status(conditions=(RUNNING, older, named)))
    assert found.training is not None and found.training.outcome is not None
    assert (found.training.attempt, found.training.outcome.reason) == (4, "RecordLost")
    assert found.restarts == 5


@pytest.mark.parametrize(
    ("reason", "had_one"), [("PodTerminating", True), ("QuotaExceeded", False)]
)
def test_what_a_job_waits_for_shows_whether_it_had_an_attempt(reason: str, had_one: bool) -> None:
    found = rebuilt(Status(conditions=(condition("Running", "False", reason),)))
    assert (found.training is not None) is had_one


def test_an_attempt_because_of_which_the_job_restarts_has_ended() -> None:
    restarting = condition("Restarting", "True", "MemberFailed", "attempt 1: it exited with 1")
    found = rebuilt(Status(conditions=(RUNNING, restarting)), r1=attempt(1))
    assert found.training is not None and found.training.outcome is not None
    outcome = found.training.outcome
    assert (outcome.reason, outcome.message) == ("MemberFailed", "it exited with 1")
    assert found.restarts == 2
    following = rebuilt(Status(conditions=(RUNNING, restarting)), r2=attempt(2))
    assert following.training is not None and following.training.outcome is None
    assert following.restarts == 2
