"""The pod whose log explains a failure: the first that failed without a signal from the runner."""

from typing import Any

from imagenet_operator.clusters.local.runner import FirstFailure


def pod(name: str, phase: str = "Failed", finished: str = "", **metadata: Any) -> dict[str, Any]:
    state = {"terminated": {"finishedAt": finished}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, **metadata},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


def test_nobody_is_failured_for_success() -> None:
    failure = FirstFailure()

    failure.observe(
        [pod("a", "Succeeded"), pod("b", "Running"), {"kind": "Service", "metadata": {}}]
    )

    assert failure.culprit is None


def test_the_first_to_fail_is_failured() -> None:
    failure = FirstFailure()

    failure.observe(
        [pod("late", finished="2026-01-01T00:00:02Z"), pod("early", finished="2026-01-01")]
    )

    assert failure.culprit == "early"


def test_those_that_were_told_to_end_are_not_to_failure() -> None:
    failure = FirstFailure()
    failure.observe([pod("a"), pod("b", "Running")])

    failure.observe([pod("a"), pod("b", deletionTimestamp="now")])

    assert failure.culprit == "a"


def test_the_next_attempt_has_a_culprit_of_its_own() -> None:
    failure = FirstFailure()
    failure.observe([pod("r0")])

    failure.observe([pod("r0"), pod("r1")])

    assert failure.culprit == "r1"
