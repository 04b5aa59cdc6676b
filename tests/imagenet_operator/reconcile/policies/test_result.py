"""Which workers that all succeeded have left no result, by a table."""

from __future__ import annotations

import pytest

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.policies import members
from imagenet_operator.reconcile.types import Charge
from support.attempt_members import recorded

FINISHED = '{"event": "finished", "epochs": 3, "top1": 0.9}'
READ = '{"event": "read", "images": 608, "workers": 2, "imagesPerSecond": 512.5}'


def fails(*messages: str | None, expects: bool = True, exit_code: int | None = 0) -> bool:
    """Whether workers that left these messages have failed."""
    workers = [
        recorded(f"worker-{index}", "Succeeded", exit_code=exit_code, message=message)
        for index, message in enumerate(messages)
    ]
    helper = recorded("server-0", "Succeeded", exit_code=0)
    end = members.no_result(TrainingStatus(expects_result=expects, members=(helper, *workers)))
    assert end is None or (end.reason, end.charge) == ("NoResult", Charge.PERMANENT)
    return end is not None


@pytest.mark.parametrize(
    ("messages", "failed"),
    [
        ((None,), True),
        ((None, None), True),
        # Rank 0 need not be worker 0: MXNet's scheduler gives the ranks.
        ((None, FINISHED), False),
        ((FINISHED, None), False),
        ((READ, READ), False),
        (("usage: imagenet-train [-h]",), True),
        (("{}",), True),
        (('{"event": "started", "attempt": 0, "epochs": 3}',), True),
        # As an older release writes it, before it had kinds.
        (('{"epochs": 3}',), False),
        # A field of a later release.
        (('{"event": "finished", "epochs": 3, "top9": 0.9}',), False),
    ],
)
def test_one_worker_must_leave_a_result(messages: tuple[str | None, ...], failed: bool) -> None:
    assert fails(*messages) is failed


def test_pods_of_an_older_operator_and_own_programs_need_none() -> None:
    assert not fails(None, expects=False)


def test_a_pod_of_which_no_container_is_known_needs_none() -> None:
    assert not fails(None, exit_code=None)
