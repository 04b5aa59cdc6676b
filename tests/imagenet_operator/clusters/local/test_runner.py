"""The pod whose log explains a failure: the first that failed without a signal from the runner."""

from typing import Any

import pytest

from imagenet_operator.clusters.local.runner import FirstFailure


def pod(name: str, phase: str = "Failed", finished: str = "", **metadata: Any) -> dict[str, Any]:
    state = {"terminated": {"finishedAt": finished}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, **metadata},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


@pytest.mark.parametrize(
    ("observations", "culprit"),
    [
        ([[pod("a", "Succeeded"), pod("b", "Running"), {"kind": "Service", "metadata": {}}]], None),
        (
            [[pod("late", finished="2026-01-01T00:00:02Z"), pod("early", finished="2026-01-01")]],
            "early",
        ),
        ([[pod("a"), pod("b", "Running")], [pod("a"), pod("b", deletionTimestamp="now")]], "a"),
        ([[pod("r0")], [pod("r0"), pod("r1")]], "r1"),
    ],
    ids=["success", "the first to fail", "told to end", "the next attempt"],
)
def test_the_culprit(observations: list[list[dict[str, Any]]], culprit: str | None) -> None:
    failure = FirstFailure()
    for children in observations:
        failure.observe(children)
    assert failure.culprit == culprit
