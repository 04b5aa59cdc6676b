"""The epochs of a local job, read while its logs grow."""

from pathlib import Path

import pytest

from imagenet_operator.cli.epoch_log import EpochLog
from imagenet_spec.events import EpochFinished, Event, Progress, Started, Validated, to_line


@pytest.fixture
def log(tmp_path: Path) -> EpochLog:
    return EpochLog(tmp_path)


def append(results: Path, attempt: int, *events: Event) -> Path:
    """Append events to the log of an attempt."""
    file = results / "attempts" / f"r{attempt}" / "metrics.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as written:
        written.writelines(f"{to_line(event, 1000.0)}\n" for event in events)
    return file


def numbers(log: EpochLog, *, is_end: bool = False) -> list[tuple[int, int]]:
    """The attempt and number of each new epoch."""
    return [(epoch.attempt, epoch.number) for epoch in log.new(is_end)]


def test_each_epoch_comes_once_and_with_its_validation(log: EpochLog, tmp_path: Path) -> None:
    assert numbers(log) == []
    append(tmp_path, 0, Started(0, 1, 0, 0), EpochFinished(0, 1.0, 10.0))
    assert numbers(log) == []
    append(tmp_path, 0, Validated(0, 20, 0.5))
    (first,) = log.new()
    assert first.validation == Validated(0, 20, 0.5)
    append(tmp_path, 0, EpochFinished(1, 1.0, 10.0), Progress(2, 1, 10.0))
    assert numbers(log) == [(0, 2)]
    assert numbers(log) == []


def test_the_last_epoch_needs_no_validation(log: EpochLog, tmp_path: Path) -> None:
    append(tmp_path, 0, Started(0, 1, 0, 0), EpochFinished(0, 1.0, 10.0))
    assert numbers(log) == []
    assert numbers(log, is_end=True) == [(0, 1)]


def test_an_epoch_that_is_trained_again_comes_with_its_attempt(
    log: EpochLog, tmp_path: Path
) -> None:
    """The first attempt ends before the validation."""
    append(tmp_path, 0, Started(0, 1, 0, 0), EpochFinished(0, 1.0, 10.0))
    append(tmp_path, 1, Started(1, 1, 0, 0), EpochFinished(0, 1.0, 10.0), Validated(0, 20, 0.5))
    assert numbers(log) == [(0, 1), (1, 1)]


def test_a_line_is_read_when_it_is_whole(log: EpochLog, tmp_path: Path) -> None:
    file = append(tmp_path, 0, Started(0, 1, 0, 0), EpochFinished(0, 1.0, 10.0))
    line = to_line(Validated(0, 20, 0.5), 1000.0)
    with file.open("a") as written:
        written.write(line[:30])
        written.flush()
        assert numbers(log) == []
        written.write(line[30:] + "\n")
    assert numbers(log) == [(0, 1)]


def test_lines_that_mean_nothing_are_passed_over(log: EpochLog, tmp_path: Path) -> None:
    file = append(tmp_path, 0, Started(0, 1, 0, 0))
    with file.open("a") as written:
        written.write('{"event": "epoch"}\n{"ti\n{"event": "other", "time": 1}\n')
    append(tmp_path, 0, EpochFinished(0, 1.0, 10.0), Validated(0, 20, 0.5))
    assert numbers(log) == [(0, 1)]
