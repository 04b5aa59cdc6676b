"""Clocks: time that counts towards a deadline, with its pauses left out."""

from __future__ import annotations

from datetime import datetime

import pytest

from imagenet_operator.api.status import Clock
from imagenet_operator.reconcile.policies import deadlines
from support.attempt_members import NOW, later


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
