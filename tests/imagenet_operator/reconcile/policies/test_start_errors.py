"""Start errors: what is recorded of them, and what they excuse."""

from __future__ import annotations

from datetime import timedelta

from imagenet_operator.api.status import StartErrors, TrainingStatus
from imagenet_operator.reconcile.policies import start_errors
from support.simulated_world import START

LATER = START + timedelta(seconds=100)
LASTING = StartErrors(since=START)


def test_the_first_error_counts_until_the_last_one_is_cleared() -> None:
    assert start_errors.recorded(None, False, START) is None
    assert start_errors.recorded(None, True, START) == LASTING
    assert start_errors.recorded(LASTING, True, LATER) == LASTING
    cleared = start_errors.recorded(LASTING, False, LATER)
    assert cleared == StartErrors(cleared=LATER)
    assert start_errors.recorded(cleared, False, LATER + timedelta(1)) == cleared
    assert start_errors.recorded(cleared, True, LATER) == StartErrors(since=LATER)


def test_the_deadline_counts_from_the_first_error() -> None:
    assert start_errors.deadline(LASTING, 600) == START + timedelta(seconds=600)
    assert start_errors.deadline(StartErrors(cleared=START), 600) is None
    assert start_errors.deadline(None, 600) is None


def test_other_deadlines_count_from_the_end_of_the_errors() -> None:
    training = TrainingStatus(schedulable_time=START)
    excused = start_errors.excused(training, StartErrors(cleared=LATER))
    assert (excused.schedulable_time, excused.bound_time) == (LATER, None)
    assert start_errors.excused(training, LASTING) == training
