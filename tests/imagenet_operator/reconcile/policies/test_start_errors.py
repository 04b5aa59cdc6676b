"""Start errors: what is recorded of them, and what they excuse."""

from __future__ import annotations

from datetime import timedelta

from imagenet_operator.api.status import StartErrors, TrainingStatus
from imagenet_operator.reconcile.policies import waiting
from support.simulated_world import START

LATER = START + timedelta(seconds=100)
LASTING = StartErrors(since=START)


def test_the_first_error_counts_until_the_last_one_is_cleared() -> None:
    assert waiting.recorded_errors(None, False, START) is None
    assert waiting.recorded_errors(None, True, START) == LASTING
    assert waiting.recorded_errors(LASTING, True, LATER) == LASTING
    cleared = waiting.recorded_errors(LASTING, False, LATER)
    assert cleared == StartErrors(cleared=LATER)
    assert waiting.recorded_errors(cleared, False, LATER + timedelta(1)) == cleared
    assert waiting.recorded_errors(cleared, True, LATER) == StartErrors(since=LATER)


def test_the_deadline_counts_from_the_first_error() -> None:
    assert waiting.start_deadline(LASTING, 600) == START + timedelta(seconds=600)
    assert waiting.start_deadline(StartErrors(cleared=START), 600) is None
    assert waiting.start_deadline(None, 600) is None


def test_other_deadlines_count_from_the_end_of_the_errors() -> None:
    training = TrainingStatus(schedulable_time=START)
    excused = waiting.without_start_errors(training, StartErrors(cleared=LATER))
    assert (excused.schedulable_time, excused.bound_time) == (LATER, None)
    assert waiting.without_start_errors(training, LASTING) == training
