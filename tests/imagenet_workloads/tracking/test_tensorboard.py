"""The event files: their bytes follow from the events. tests/home reads them with TensorBoard."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import pytest

from imagenet_spec.events import CheckpointWritten, Event, Finished, Progress, Started
from imagenet_spec.program.programs import TrackOptions
from imagenet_workloads.telemetry.event_log import EventLog
from imagenet_workloads.tracking.follow import Follower
from imagenet_workloads.tracking.mlflow import Job
from support.tfrecord import records

EVENTS: dict[int, list[Event]] = {
    0: [
        Started(0, 1, 0, 0, None, 10, "t", 100, "key", {"lr": "0.1"}),
        Progress(0, 4, 5.0, 1.0),
        CheckpointWritten(0, 6, "c", 1.0),
        Progress(0, 8, 5.0, 0.5),
    ],
    1: [Started(1, 1, 0, 6, "c", 10, "t", 100), Progress(0, 8, 5.0, 0.25), Finished(1)],
}


def write(results: Path, attempts: dict[int, list[Event]]) -> None:
    for attempt, events in attempts.items():
        times = map(float, range(1000 * (attempt + 1), 10_000))
        log = EventLog(results / "attempts" / f"r{attempt}", partial(next, times))
        for event in events:
            log.write(event)
        log.close()


def follower(results: Path) -> Follower:
    return Follower(results, TrackOptions(tensorboard=True), Job("digits", "vision", "1"), {})


def files(results: Path) -> dict[str, bytes]:
    found = sorted((results / "tensorboard").iterdir())
    return {path.name: path.read_bytes() for path in found}


def test_each_run_of_an_attempt_has_a_file_and_a_restart_its_mark(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    follower(tmp_path).write()
    first, second = files(tmp_path).items()
    assert first[0] == "events.out.tfevents.0000000000.r0"
    assert second[0] == "events.out.tfevents.0000000001.r1"
    before, after = (list(records(content)) for _, content in (first, second))
    # Field 1 is the time as a double; 2 the step as a varint; 3 the version of the file.
    version = b"\x1a\x0dbrain.Event:2"
    assert before[0] == b"\x09" + struct.pack("<d", 1000.0) + b"\x10\x00" + version
    # Field 7 is the session's log, whose status is START: the steps from 61 on are dropped.
    assert after[1] == b"\x09" + struct.pack("<d", 2000.0) + b"\x10\x3d" + b"\x3a\x02\x08\x01"
    assert b"attempt 1 resumes from c" in after[2]
    # TensorBoard takes the first mark for a beginning, not for a restart.
    assert before[1] == b"\x09" + struct.pack("<d", 1000.0) + b"\x10\x00" + b"\x3a\x02\x08\x01"
    assert b"| lr | 0.1 |" in before[2] and b"| dataset_key | key |" in before[2]
    # A scalar: its tag, and its value as a float.
    assert any(b"\x0a\x0atrain/loss\x15" + struct.pack("<f", 0.25) in item for item in after)


@pytest.mark.parametrize("kept", [0, 1, 40, 200, 10_000])
def test_a_program_that_comes_later_goes_on_where_the_last_one_was_killed(
    kept: int, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for results in (whole, cut):
        write(results, EVENTS)
    follower(whole).write()
    follower(cut).write()
    for path in (cut / "tensorboard").iterdir():
        path.write_bytes(path.read_bytes()[:kept])
    for _ in range(2):
        follower(cut).write()
        assert files(cut) == files(whole)


def test_it_follows_logs_that_grow_and_attempts_that_begin(tmp_path: Path) -> None:
    results, expected = tmp_path / "live", tmp_path / "expected"
    write(expected, EVENTS)
    follower(expected).write()
    live = follower(results)
    live.write()
    (results / "attempts").mkdir(parents=True)
    for attempt in EVENTS:
        source = expected / "attempts" / f"r{attempt}" / "metrics.jsonl"
        target = results / "attempts" / f"r{attempt}" / "metrics.jsonl"
        target.parent.mkdir()
        content = source.read_bytes()
        for end in (*range(0, len(content), 37), len(content)):
            # Most ends are within a line.
            target.write_bytes(content[:end])
            live.write()
    assert files(results) == files(expected)


def test_an_attempt_that_is_replaced_adds_nothing(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    live = follower(tmp_path)
    live.write()
    before = files(tmp_path)
    write(tmp_path, {0: [Progress(0, 9, 5.0, 9.0)]})
    live.write()
    assert files(tmp_path) == before


def test_after_a_failed_write_it_begins_again(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    (tmp_path / "tensorboard").write_text("in the way")
    live = follower(tmp_path)
    with pytest.raises(OSError):
        live.write()
    (tmp_path / "tensorboard").unlink()
    live.write()
    assert len(files(tmp_path)) == 2
