"""The parts of a recovery add up to the time from the kill to the next step."""

from __future__ import annotations

import json

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


@pytest.mark.parametrize("starting", [0.25, 3.0])
def test_the_parts_add_up(starting: float) -> None:
    figures = {"starting": starting, "joining": 0.5, "restoring": 0.25, "stepping": 9.0}
    found = recovery.parts(100.0, (101.0, 103.0, 103.5), 109.0, figures)
    assert tuple(found) == recovery.PARTS
    assert sum(found.values()) == pytest.approx(9.0)
    assert found["noticed"] == 1.0
    assert found["restarted"] == 2.0
    # A program starts before the operator has seen that it runs.
    assert found["starting"] == max(0.0, starting - 0.5)


def test_the_table_has_medians() -> None:
    runs = [dict.fromkeys(recovery.PARTS, float(second)) for second in (1, 2, 9)]
    *_, line = recovery.table({"horovod": runs}).splitlines()
    assert line == f"| horovod | {' | '.join(['2.00'] * 7)} | 14.00 |"
