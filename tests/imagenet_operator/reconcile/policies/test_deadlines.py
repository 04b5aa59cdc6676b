"""Deadlines: clocks with their pauses left out, and what counts as progress."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from imagenet_operator.reconcile.policies import deadlines
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Charge
from imagenet_spec.resource.status import Clock, TrainingStatus
from support.attempt_members import NOW, later
from support.sentences import assert_says

RUNNING = TrainingStatus(attempt=2, bound_time=later(-900), running_time=later(-800))
HEARD = RUNNING.model_copy(update={"last_progress_time": later(-700)})
"""One with a sample in the status."""

REQUEUE_INTERVAL = timedelta(seconds=30)


def sample(
    attempt: int | None, progressed_at: datetime | None, *, taken_at: datetime = NOW
) -> Sample:
    return Sample(taken_at=taken_at, attempt=attempt, progressed_at=progressed_at)


def silence(seconds: float, *, asked: int | None = 2, **heard: object) -> Sample:
    """Members that have been asked for so long, and did not answer."""
    return Sample(taken_at=NOW, asked=asked, silent_since=later(-seconds), **heard)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("training", "heard", "moved"),
    [
        pytest.param(TrainingStatus(), None, None, id="waits for nodes"),
        pytest.param(TrainingStatus(bound_time=later(-9)), None, later(-9), id="has nodes"),
        pytest.param(
            TrainingStatus(bound_time=later(-9)), silence(99), later(-9), id="does not run yet"
        ),
        pytest.param(RUNNING, None, None, id="is not sampled"),
        pytest.param(HEARD, None, None, id="is not sampled any more"),
        pytest.param(RUNNING, sample(1, NOW), None, id="only the former attempt was heard"),
        pytest.param(HEARD, sample(1, NOW), None, id="only the former attempt is heard now"),
        pytest.param(RUNNING, sample(2, None), None, id="says nothing"),
        pytest.param(RUNNING, sample(2, later(-70)), later(-70), id="moved"),
        pytest.param(HEARD, sample(2, later(-70)), later(-70), id="moved since the status"),
        pytest.param(RUNNING, sample(2, later(-850)), later(-800), id="began to run after"),
        pytest.param(RUNNING, silence(500), None, id="was never heard"),
        pytest.param(HEARD, silence(500), later(-500), id="fell silent, unseen"),
        pytest.param(HEARD, silence(790), later(-700), id="moved after it was asked"),
        pytest.param(
            HEARD.model_copy(update={"running_time": later(-60)}),
            silence(500),
            later(-60),
            id="was asked before all ran",
        ),
        pytest.param(HEARD, silence(500, asked=1), None, id="only the former attempt was asked"),
        pytest.param(HEARD, silence(500, asked=None), None, id="only the preparation was asked"),
        pytest.param(
            HEARD,
            silence(10, attempt=2, progressed_at=later(-70)),
            later(-70),
            id="fell silent, seen",
        ),
    ],
)
def test_last_progress(
    training: TrainingStatus, heard: Sample | None, moved: datetime | None
) -> None:
    assert deadlines.last_progress(training, heard) == moved


@pytest.mark.parametrize(
    ("training", "heard", "seconds", "message"),
    [
        pytest.param(RUNNING, sample(2, later(-70)), None, None, id="no deadline"),
        pytest.param(RUNNING, sample(2, later(-70)), 71, None, id="not yet"),
        pytest.param(
            RUNNING,
            sample(2, later(-70)),
            70,
            "training did not progress for 70 s",
            id="stalls",
        ),
        pytest.param(HEARD, None, 1, None, id="the sampler is off"),
        pytest.param(RUNNING, silence(500), 70, None, id="was never heard"),
        pytest.param(HEARD, silence(69), 70, None, id="silent for less"),
        pytest.param(HEARD, silence(70), 70, "no worker answered for 70 s", id="silent"),
        pytest.param(
            HEARD,
            silence(10, attempt=2, progressed_at=later(-70)),
            70,
            "training did not progress for 70 s",
            id="stalled, then fell silent",
        ),
        pytest.param(
            RUNNING,
            sample(2, later(-70), taken_at=later(-1)),
            70,
            None,
            id="no sample since the deadline",
        ),
    ],
)
def test_standing_still_is_charged(
    training: TrainingStatus, heard: Sample | None, seconds: int | None, message: str | None
) -> None:
    end = deadlines.no_progress(training, heard, seconds, NOW)
    assert (None if end is None else end.message) == message
    if end is not None:
        assert (end.reason, end.charge) == ("ProgressDeadlineExceeded", Charge.FAILURE)


def test_members_that_never_come_to_run_are_no_progress() -> None:
    end = deadlines.no_progress(TrainingStatus(bound_time=later(-300)), None, 300, NOW)
    assert end is not None
    assert_says(end.message, "not all members", "300 s")


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        pytest.param(None, None, id="never"),
        pytest.param(sample(2, later(-10)), later(60), id="at the deadline"),
        pytest.param(sample(2, later(-70), taken_at=later(-1)), later(30), id="at a sample"),
    ],
)
def test_when_to_requeue_at(heard: Sample | None, expected: datetime | None) -> None:
    assert deadlines.next_progress_check(RUNNING, heard, 70, NOW, REQUEUE_INTERVAL) == expected


def test_pauses_do_not_count() -> None:
    spent = deadlines.start_clock(Clock(), NOW)
    spent = deadlines.stop_clock(spent, later(10))
    spent = deadlines.start_clock(spent, later(1000))
    assert deadlines.ends_at(spent, 30) == later(1020)
    assert deadlines.stop_clock(spent, later(1005)) == Clock(seconds=15)


def test_running_and_stopping_may_be_repeated() -> None:
    running = deadlines.start_clock(Clock(seconds=3), NOW)
    assert deadlines.start_clock(running, later(50)) == running
    stopped = deadlines.stop_clock(running, later(7))
    assert deadlines.stop_clock(stopped, later(90)) == stopped == Clock(seconds=10)


def test_a_clock_that_was_set_back_takes_nothing_away() -> None:
    assert deadlines.stop_clock(Clock(seconds=5, since=later(60)), NOW) == Clock(seconds=5)


@pytest.mark.parametrize(
    ("spent", "seconds", "over", "ends_at"),
    [
        (Clock(seconds=5, since=NOW), 10, False, later(5)),
        (Clock(seconds=9, since=later(-1)), 10, True, NOW),
        (Clock(seconds=10), 10, True, None),
        (Clock(seconds=9), 10, False, None),
        (Clock(seconds=9, since=NOW), None, False, None),
    ],
)
def test_deadlines(spent: Clock, seconds: int | None, over: bool, ends_at: datetime | None) -> None:
    assert deadlines.is_over(spent, seconds, NOW) is over
    assert deadlines.ends_at(spent, seconds) == ends_at
