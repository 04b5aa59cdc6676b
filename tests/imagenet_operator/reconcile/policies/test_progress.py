"""Progress: what counts, and when an attempt that stands still is ended."""

from __future__ import annotations

from datetime import datetime

import pytest

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.policies import progress
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Charge
from support.attempt_members import NOW, later

RUNNING = TrainingStatus(attempt=2, bound_time=later(-900), running_time=later(-800))


def sample(attempt: int, progressed_at: datetime | None) -> Sample:
    return Sample(taken_at=NOW, attempt=attempt, progressed_at=progressed_at)


@pytest.mark.parametrize(
    ("training", "heard", "moved"),
    [
        pytest.param(TrainingStatus(), None, None, id="waits for nodes"),
        pytest.param(TrainingStatus(bound_time=later(-9)), None, later(-9), id="has nodes"),
        pytest.param(RUNNING, None, None, id="is not sampled"),
        pytest.param(RUNNING, sample(1, NOW), None, id="only the former attempt was heard"),
        pytest.param(RUNNING, sample(2, None), None, id="says nothing"),
        pytest.param(RUNNING, sample(2, later(-70)), later(-70), id="moved"),
        pytest.param(RUNNING, sample(2, later(-850)), later(-800), id="began to run after"),
    ],
)
def test_last_progress(
    training: TrainingStatus, heard: Sample | None, moved: datetime | None
) -> None:
    assert progress.last_progress(training, heard) == moved


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(None, None), (71, None), (70, "training stood still for 70 s")],
)
def test_standing_still_is_charged(seconds: int | None, message: str | None) -> None:
    end = progress.verdict(RUNNING, sample(2, later(-70)), seconds, NOW)
    assert (None if end is None else end.message) == message
    if end is not None:
        assert (end.reason, end.charge) == ("ProgressDeadlineExceeded", Charge.FAILURE)


def test_members_that_never_come_to_run_are_no_progress() -> None:
    end = progress.verdict(TrainingStatus(bound_time=later(-300)), None, 300, NOW)
    assert end is not None
    assert end.message == "not all members came to run for 300 s"
