"""Whom the loop blames: the pod that failed of itself, first."""

from typing import Any

from imagenet_operator.clusters.local.loop import Blame


def pod(name: str, phase: str = "Failed", finished: str = "", **metadata: Any) -> dict[str, Any]:
    state = {"terminated": {"finishedAt": finished}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, **metadata},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


def test_nobody_is_blamed_for_success() -> None:
    blame = Blame()

    blame.look([pod("a", "Succeeded"), pod("b", "Running"), {"kind": "Service", "metadata": {}}])

    assert blame.culprit is None


def test_the_first_to_fail_is_blamed() -> None:
    blame = Blame()

    blame.look([pod("late", finished="2026-01-01T00:00:02Z"), pod("early", finished="2026-01-01")])

    assert blame.culprit == "early"


def test_those_that_were_told_to_end_are_not_to_blame() -> None:
    blame = Blame()
    blame.look([pod("a"), pod("b", "Running")])

    blame.look([pod("a"), pod("b", deletionTimestamp="now")])

    assert blame.culprit == "a"


def test_the_next_attempt_has_a_culprit_of_its_own() -> None:
    blame = Blame()
    blame.look([pod("r0")])

    blame.look([pod("r0"), pod("r1")])

    assert blame.culprit == "r1"
