"""What is deleted of a finished job, and between two attempts."""

from __future__ import annotations

from typing import Literal

import pytest

from imagenet_operator.reconcile.policies import cleanup
from imagenet_operator.reconcile.types import (
    Attempt,
    Observed,
    Phase,
    PreparationJob,
    Reference,
)
from support.attempt_members import seen

SERVICE = Reference("Service", "digits-r0", "uid-s")
OBSERVED = Observed(
    jobs={
        "index": PreparationJob("index", "digits-index", "uid-i", complete=True),
        "pack": PreparationJob("pack", "digits-pack", "uid-p"),
        "seal": PreparationJob("seal", "digits-seal", "uid-x", terminating=True),
    },
    attempts={
        0: Attempt(
            0,
            (
                seen("scheduler-0"),
                seen("server-0", terminating=True),
                seen("worker-0", Phase.SUCCEEDED, live=False),
                # The program is done, but a container that was injected beside it is not.
                seen("worker-1", Phase.SUCCEEDED),
            ),
            (SERVICE,),
        )
    },
)


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [
        ("None", set()),
        ("Running", {"digits-pack", "scheduler-0", "worker-1", "digits-r0"}),
        (
            "All",
            {"digits-index", "digits-pack", "scheduler-0", "worker-0", "worker-1", "digits-r0"},
        ),
    ],
)
def test_by_policy(policy: Literal["None", "Running", "All"], deleted: set[str]) -> None:
    assert {item.name for item in cleanup.leftovers(policy, OBSERVED)} == deleted


def test_between_attempts_every_pod_goes_and_no_job() -> None:
    names = [item.name for item in cleanup.attempts(OBSERVED)]
    assert names == ["scheduler-0", "worker-0", "worker-1", "digits-r0"]


def test_deletes_name_the_uid() -> None:
    assert cleanup.services(OBSERVED) == (SERVICE,)
    assert Reference("Pod", "worker-0", "uid-of-worker-0") in cleanup.attempts(OBSERVED)
