"""The parts of a recovery add up to the time from the kill to the next step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.recovery import __main__, here, parts

from support.pod_subset import REPOSITORY


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
    assert here.event_times("\n".join(told), KILLED) is None
    told.append(event(14, "Running"))
    times = here.event_times("\n".join(told), KILLED)
    assert times is not None
    assert [moment - KILLED for moment in times] == [1.5, 3.5, 4.5]


TIMESTAMPS = parts.Timestamps(
    killed=100.0,
    ended=101.5,
    noticed=101.0,
    restarted=103.0,
    started=103.0,
    running=103.5,
    stepped=109.0,
)
WAIT = "imagenet_train_data_wait_seconds_sum"


@pytest.mark.parametrize("starting", [0.25, 3.0])
def test_the_parts_add_up(starting: float) -> None:
    figures = {"starting": starting, "joining": 0.5, "restoring": 0.25, "stepping": 9.0, WAIT: 0.75}
    found = parts.durations(TIMESTAMPS, figures)
    assert tuple(found) == parts.PARTS
    assert sum(found.values()) == pytest.approx(9.0)
    assert found["noticed"] == 1.0
    assert (found["pods ended"], found["restarted"]) == (0.5, 1.5)
    # A program starts before the operator has seen that it runs.
    assert found["starting"] == max(0.0, starting - 0.5)
    assert found["data"] == 0.75


def test_a_program_that_starts_when_it_runs_has_started_nothing_before() -> None:
    found = parts.durations(replace(TIMESTAMPS, started=103.5), {"starting": 3.0})
    assert (found["running"], found["starting"]) == (0.5, 3.0)


@pytest.mark.parametrize(("ended", "expected"), [(100.5, (0.0, 2.0)), (103.25, (2.0, 0.0))])
def test_processes_that_end_early_or_are_seen_late_have_no_negative_part(
    ended: float, expected: tuple[float, float]
) -> None:
    found = parts.durations(replace(TIMESTAMPS, ended=ended), {WAIT: 60.0})
    assert (found["pods ended"], found["restarted"]) == expected
    # More steps than one may have ended before the metrics were read.
    assert (found["data"], found["first step"]) == (5.5, 0.0)


def test_the_table_has_medians() -> None:
    runs = [dict.fromkeys(parts.PARTS, float(second)) for second in (1, 2, 9)]
    *_, line = parts.table({"horovod": runs}).splitlines()
    assert line == f"| horovod | {' | '.join(['2.00'] * 9)} | 18.00 |"


def test_seconds_are_read_by_their_phase() -> None:
    text = 'imagenet_train_seconds_total{phase="joining"} 2.5\nimagenet_train_epoch 3\n'
    assert parts.figures_of(text) == {"joining": 2.5, "imagenet_train_epoch": 3.0}


MARKED = "a\n\n<!-- {0}: begin -->\n{1}\n<!-- {0}: end -->\n\nb\n"


def test_a_table_replaces_the_former_one_of_its_name_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    others = MARKED.format("bench-recovery-kind", "kept")
    page.write_text(others + MARKED.format("bench-recovery", "| old |\n| table |"))
    parts.replace(page, "bench-recovery", "| new |")
    assert page.read_text() == others + MARKED.format("bench-recovery", "| new |")


@pytest.mark.parametrize("text", ["", "<!-- x: begin -->\n", "<!-- x: end -->\n"])
def test_a_page_without_both_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="lacks <!-- x: begin --> and <!-- x: end -->"):
        parts.replace(page, "x", "| new |")
    assert page.read_text() == text


@pytest.mark.parametrize("name", ["bench-recovery", "bench-recovery-kind"])
def test_the_page_has_the_marks(tmp_path: Path, name: str) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text((REPOSITORY / "docs" / "benchmarks.md").read_text())
    parts.replace(page, name, "| new |")
    assert "| new |" in page.read_text()


def test_the_options_of_the_targets_are_known() -> None:
    parsed = __main__.parser().parse_args(["--kind", "--page", "docs/benchmarks.md"])
    assert (parsed.kind, parsed.runs) == (True, 3)
