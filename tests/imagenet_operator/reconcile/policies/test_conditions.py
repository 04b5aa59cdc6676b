"""Conditions in Kubernetes' form, and the phase that follows from them."""

import pytest

from imagenet_operator.api.status import Clock, Condition, ConditionType, Status
from imagenet_operator.reconcile.policies import job_status
from support.attempt_members import NOW, later


def test_a_new_condition_comes_last() -> None:
    first = job_status.put((), "Created", True, "JobAccepted", "", now=NOW, generation=1)
    both = job_status.put(first, "Running", False, "Starting", "wait", now=NOW, generation=2)
    assert [item.type for item in both] == ["Created", "Running"]
    assert (both[1].status, both[1].observed_generation) == ("False", 2)
    assert job_status.holds(both, "Created")
    assert not job_status.holds(both, "Running")
    assert not job_status.holds(both, "Failed")


def test_time_moves_only_with_the_status() -> None:
    one = job_status.put((), "Running", False, "Starting", "", now=NOW, generation=1)
    two = job_status.put(one, "Running", False, "Scheduling", "", now=later(5), generation=1)
    three = job_status.put(two, "Running", True, "Running", "", now=later(9), generation=1)
    assert [item[0].last_transition_time for item in (one, two, three)] == [NOW, NOW, later(9)]
    assert [item[0].reason for item in (one, two, three)] == ["Starting", "Scheduling", "Running"]


def test_saying_the_same_again_changes_nothing() -> None:
    one = job_status.put((), "Failed", True, "Why", "x" * 9000, now=NOW, generation=1)
    again = job_status.put(one, "Failed", True, "Why", "x" * 9000, now=later(5), generation=7)
    assert again == one


def test_a_long_message_is_cut() -> None:
    (one,) = job_status.put((), "Failed", True, "Why", "x" * 9000, now=NOW, generation=1)
    assert len(one.message) == job_status.MESSAGE_MAXIMUM
    assert one.message.endswith("…")


@pytest.mark.parametrize(
    ("true", "expected"),
    [
        ([], "Created"),
        (["DatasetReady"], "Starting"),
        (["DatasetReady", "Running"], "Running"),
        (["DatasetReady", "Restarting"], "Restarting"),
        (["DatasetReady", "Restarting", "Suspended"], "Suspended"),
        (["DatasetReady", "Restarting", "Failed"], "Failed"),
        (["Suspended"], "Suspended"),
        (["DatasetReady", "Succeeded"], "Succeeded"),
    ],
)
def test_the_first_condition_that_holds_says_it(true: list[ConditionType], expected: str) -> None:
    found = job_status.put((), "Running", False, "No", "", now=NOW, generation=1)
    for kind in true:
        found = job_status.put(found, kind, True, "Yes", "", now=NOW, generation=1)
    assert job_status.phase(Status(conditions=found), suspends=False) == expected


@pytest.mark.parametrize(
    ("true", "expected"),
    [
        ([], "Suspending"),
        (["DatasetReady", "Running"], "Suspending"),
        (["DatasetReady", "Restarting"], "Suspending"),
        (["DatasetReady", "Suspended"], "Suspended"),
        (["DatasetReady", "Succeeded"], "Succeeded"),
    ],
)
def test_a_job_with_pods_is_suspending(true: list[ConditionType], expected: str) -> None:
    found = job_status.put((), "Created", True, "JobAccepted", "", now=NOW, generation=1)
    for kind in true:
        found = job_status.put(found, kind, True, "Yes", "", now=NOW, generation=1)
    assert job_status.phase(Status(conditions=found), suspends=True) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"Created": (False, "ClaimNotFound")}, "ClaimNotFound"),
        ({"Created": (True, "JobAccepted")}, "JobAccepted"),
        ({"Created": (True, "JobAccepted"), "DatasetReady": (False, "Packing")}, "Packing"),
        ({"DatasetReady": (True, "Sealed")}, "Sealed"),
        ({"DatasetReady": (True, "Sealed"), "Running": (False, "Unschedulable")}, "Unschedulable"),
        (
            {"DatasetReady": (False, "ImagePullBackOff"), "Running": (False, "x")},
            "ImagePullBackOff",
        ),
        ({"DatasetReady": (True, "Sealed"), "Suspended": (True, "Suspended")}, "Suspended"),
        ({"Running": (False, "WorkerFailed"), "Failed": (True, "BackoffLimit")}, "BackoffLimit"),
    ],
)
def test_the_reason_is_that_of_the_condition_that_explains_the_phase(
    given: dict[ConditionType, tuple[bool, str]], expected: str | None
) -> None:
    found: tuple[Condition, ...] = ()
    for kind, (value, reason) in given.items():
        found = job_status.put(found, kind, value, reason, "", now=NOW, generation=1)
    assert job_status.reason(Status(conditions=found)) == expected


def test_a_running_clock_means_preparing() -> None:
    status = Status(preparation=Clock(since=NOW))
    assert job_status.phase(status, suspends=False) == "Preparing"
