"""The parts of a recovery add up to the time from the kill to the next step."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import recovery


def event(second: int, reason: str) -> str:
    return json.dumps(
        {"type": "event", "time": f"2026-01-02T03:04:{second:02}.500+00:00", "reason": reason}
    )


KILLED = 1767323050.0
"""2026-01-02 03:04:10."""


def test_events_after_the_kill_end_the_parts() -> None:
    told = [
        event(1, "AttemptStarted"),
        event(2, "Running"),
        '{"type": "progress"}',
        event(11, "Restarting"),
        event(13, "AttemptStarted"),
    ]
    assert recovery.event_times("\n".join(told), KILLED) is None
    told.append(event(14, "Running"))
    times = recovery.event_times("\n".join(told), KILLED)
    assert times is not None
    assert [moment - KILLED for moment in times] == [1.5, 3.5, 4.5]


TIMESTAMPS = recovery.Timestamps(
    killed=100.0, gone=101.5, noticed=101.0, restarted=103.0, running=103.5, stepped=109.0
)
WAIT = "imagenet_train_data_wait_seconds_sum"


@pytest.mark.parametrize("starting", [0.25, 3.0])
def test_the_parts_add_up(starting: float) -> None:
    figures = {"starting": starting, "joining": 0.5, "restoring": 0.25, "stepping": 9.0, WAIT: 0.75}
    found = recovery.durations(TIMESTAMPS, figures)
    assert tuple(found) == recovery.PARTS
    assert sum(found.values()) == pytest.approx(9.0)
    assert found["noticed"] == 1.0
    assert (found["pods gone"], found["restarted"]) == (0.5, 1.5)
    # A program starts before the operator has seen that it runs.
    assert found["starting"] == max(0.0, starting - 0.5)
    assert found["data"] == 0.75


@pytest.mark.parametrize(("gone", "parts"), [(100.5, (0.0, 2.0)), (103.25, (2.0, 0.0))])
def test_processes_that_end_early_or_are_seen_late_have_no_negative_part(
    gone: float, parts: tuple[float, float]
) -> None:
    found = recovery.durations(replace(TIMESTAMPS, gone=gone), {WAIT: 60.0})
    assert (found["pods gone"], found["restarted"]) == parts
    # More steps than one may have ended before the metrics were read.
    assert (found["data"], found["first step"]) == (5.5, 0.0)


def test_the_table_has_medians() -> None:
    runs = [dict.fromkeys(recovery.PARTS, float(second)) for second in (1, 2, 9)]
    *_, line = recovery.table({"horovod": runs}).splitlines()
    assert line == f"| horovod | {' | '.join(['2.00'] * 9)} | 18.00 |"
