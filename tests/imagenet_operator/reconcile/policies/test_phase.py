"""The phase that the conditions amount to."""

from __future__ import annotations

import pytest

from imagenet_operator.api.status import Clock, ConditionType, Status
from imagenet_operator.reconcile.policies import conditions, phase
from support.attempt_members import NOW


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
    found = conditions.put((), "Running", False, "No", "", now=NOW, generation=1)
    for kind in true:
        found = conditions.put(found, kind, True, "Yes", "", now=NOW, generation=1)
    assert phase.of(Status(conditions=found)) == expected


def test_a_running_clock_means_preparing() -> None:
    assert phase.of(Status(preparation=Clock(since=NOW))) == "Preparing"
