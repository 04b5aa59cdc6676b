"""Waits before the next attempt: growing, bounded, spread, and the same whenever they are asked."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.reconcile.policies import backoff
from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource.time_status import WorkerSeconds

SETTINGS = ReconcileSettings(
    restart_delay=timedelta(seconds=10),
    restart_delay_limit=timedelta(seconds=360),
    disruption_delay=timedelta(seconds=5),
)
uids, attempts = st.uuids().map(str), st.integers(0, 10**9 - 1)


@given(uids, attempts)
def test_the_first_failure_of_a_row_waits_for_nothing(uid: str, attempt: int) -> None:
    assert backoff.after_failure(uid, attempt, 1, SETTINGS) == timedelta(0)


@given(uids, attempts, st.integers(2, 1000))
def test_a_failure_waits_for_three_quarters_to_the_whole_of_its_delay(
    uid: str, attempt: int, in_a_row: int
) -> None:
    whole = min(10 * 2 ** min(in_a_row - 2, 20), 360)
    delay = backoff.after_failure(uid, attempt, in_a_row, SETTINGS)
    assert timedelta(seconds=whole * 0.75) <= delay <= timedelta(seconds=whole)


@pytest.mark.parametrize(
    ("seconds", "ends_a_row"),
    [
        (None, False),
        ({}, False),
        ({"starting": 5.0, "joining": 600.0, "restoring": 90.0}, False),
        ({"redone": 600.0, "evaluating": 600.0}, False),
        # After a crash, the steps of up to 10 s count as new twice.
        ({"data": 5.0, "stepping": 10.0, "redone": 600.0}, False),
        ({"data": 0.5, "stepping": 29.5}, True),
        ({"data": 25.0, "stepping": 6.0}, True),
    ],
)
def test_only_new_steps_end_a_row_of_failures(
    seconds: dict[str, float] | None, ends_a_row: bool
) -> None:
    reported = None if seconds is None else WorkerSeconds.model_validate(seconds)
    assert backoff.ends_a_row(reported) == ends_a_row


@given(uids, attempts)
def test_a_disruption_waits_briefly(uid: str, attempt: int) -> None:
    delay = backoff.after_disruption(uid, attempt, SETTINGS)
    assert timedelta(seconds=5) <= delay <= timedelta(seconds=8)


@given(uids, attempts, st.integers(1, 10_000))
def test_a_withdrawal_waits_for_about_its_timeout(uid: str, attempt: int, seconds: int) -> None:
    delay = backoff.after_withdrawal(uid, attempt, timedelta(seconds=seconds))
    assert timedelta(seconds=seconds / 4) <= delay <= timedelta(seconds=seconds * 1.25 + 1)


@given(uids, attempts)
def test_delays_are_whole_seconds_and_repeat(uid: str, attempt: int) -> None:
    for _ in range(2):
        delay = backoff.after_failure(uid, attempt, 3, SETTINGS)
        assert delay == backoff.after_failure(uid, attempt, 3, SETTINGS)
        assert delay.microseconds == 0


def test_no_delay_is_no_delay() -> None:
    at_once = ReconcileSettings(restart_delay=timedelta(0), disruption_delay=timedelta(0))
    assert backoff.after_failure("uid", 0, 2, at_once) == timedelta(0)
    assert backoff.after_disruption("uid", 0, at_once) == timedelta(0)


def test_the_jitter_spreads_jobs_and_attempts() -> None:
    by_job = [backoff.jitter(f"uid-{number}", 0) for number in range(1000)]
    by_attempt = [backoff.jitter("uid", number) for number in range(1000)]
    for drawn in (by_job, by_attempt):
        assert all(0 <= value < 1 for value in drawn)
        tenths = [sum(int(value * 10) == tenth for value in drawn) for tenth in range(10)]
        assert min(tenths) > 60
