import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.names import EVENTS_FILE
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.telemetry.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    Progress,
    Read,
    Started,
    Validated,
    from_line,
    read_events,
    to_line,
)
from imagenet_workloads.telemetry.log import EventLog, log_readably

SENTENCES: list[tuple[Event, str]] = [
    (Started(0, 2, 0, 0), "attempt 0 starts at epoch 1 batch 0 with 2 workers"),
    (
        Started(1, 1, 3, 5, "/o/epoch-0003-batch-00000005"),
        "attempt 1 resumes from /o/epoch-0003-batch-00000005 at epoch 4 batch 5 with 1 worker",
    ),
    (
        Progress(3, 20, 1234.56, loss=2.5, top1=0.41, learning_rate=0.0125),
        "epoch 4 batch 20: 1234.6 images/s, loss 2.5000, top1 0.4100, lr 0.0125",
    ),
    (
        EpochFinished(3, 60.04, 2000, 2.25, 0.5, 0.75),
        "epoch 4 done in 60.0 s: 2000.0 images/s, loss 2.2500, top1 0.5000, top5 0.7500",
    ),
    (
        Validated(3, 360, top1=0.975, loss=0.1),
        "epoch 4 validated on 360 images, loss 0.1000, top1 0.9750",
    ),
    (
        CheckpointWritten(4, 0, "epoch-0004-batch-00000000", 0.25),
        "checkpoint epoch-0004-batch-00000000 written in 0.2 s",
    ),
    (
        Finished(90, 0.771, 0.933, 2000),
        "training of 90 epochs is done: 2000.0 images/s, top1 0.7710, top5 0.9330",
    ),
    (Finished(1), "training of 1 epochs is done"),
]


@pytest.mark.parametrize(("event", "sentence"), SENTENCES)
def test_each_event_reads_as_a_sentence(event: Event, sentence: str) -> None:
    assert event.sentence() == sentence


def test_a_line_is_flat_json_in_camel_case_without_what_is_unknown() -> None:
    line = to_line(Progress(3, 20, 99.5, top1=0.5), time=1700000000.12345)
    assert json.loads(line) == {
        "time": 1700000000.123,
        "event": "progress",
        "epoch": 3,
        "batch": 20,
        "imagesPerSecond": 99.5,
        "top1": 0.5,
    }


counts = st.integers(0, 10**9)
floats = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none() | floats
EVENTS = st.one_of(
    st.builds(Started, counts, counts, counts, counts, st.none() | st.text()),
    st.builds(Progress, counts, counts, floats, maybe, maybe, maybe, maybe),
    st.builds(EpochFinished, counts, floats, floats, maybe, maybe, maybe),
    st.builds(Validated, counts, counts, floats, maybe, maybe),
    st.builds(CheckpointWritten, counts, counts, st.text(), floats),
    st.builds(Finished, counts, maybe, maybe),
)


@settings(deadline=None)
@given(event=EVENTS)
def test_every_event_survives_its_line(event: Event) -> None:
    line = to_line(event, time=1.5)
    assert "\n" not in line
    assert from_line(line) == (1.5, event)


def test_a_log_holds_its_events_in_order_with_their_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([10.0, 11.5])
    with caplog.at_level(logging.INFO), EventLog(tmp_path / "r0", lambda: next(times)) as log:
        log.write(Started(0, 2, 0, 0))
        assert len(log.path.read_text().splitlines()) == 1, "each line is there at once"
        log.write(Finished(1))
    assert list(read_events(tmp_path / "r0" / EVENTS_FILE)) == [
        (10.0, Started(0, 2, 0, 0)),
        (11.5, Finished(1)),
    ]
    assert caplog.messages == [Started(0, 2, 0, 0).sentence(), Finished(1).sentence()]


def test_a_second_writer_appends_after_a_line_that_was_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EventLog(tmp_path) as log:
        log.write(Started(0, 2, 0, 0))
    with (tmp_path / EVENTS_FILE).open("a") as file:
        file.write('{"time": 3, "eve')
    with EventLog(tmp_path) as log:
        log.write(Finished(1))
    events = [event for _, event in read_events(tmp_path / EVENTS_FILE)]
    assert events == [Started(0, 2, 0, 0), Finished(1)]
    assert f"{tmp_path / EVENTS_FILE}:2 is ignored" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "not json",
        '{"event": "finished", "epochs": 1}',
        '{"event": "finished", "time": 1}',
        '{"event": "finished", "time": "x", "epochs": 1}',
        '{"event": "finished", "time": 1, "epochs": "many"}',
        '{"event": "finished", "time": 1, "epochs": true}',
        '{"event": "checkpoint", "time": 1, "epoch": 1, "batch": 0, "folder": 3, "seconds": 1}',
    ],
)
def test_a_line_that_is_no_event(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def test_kinds_and_fields_of_a_later_version_are_passed_over() -> None:
    assert from_line('{"time": 1, "event": "weather", "rain": true}') is None
    assert from_line('{"time": 1, "event": "finished", "epochs": 2, "rain": 1}') == (
        1.0,
        Finished(2),
    )


def test_a_log_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}/metrics.jsonl: cannot be read: No such"):
        list(read_events(tmp_path / EVENTS_FILE))
    (tmp_path / EVENTS_FILE).mkdir()
    with pytest.raises(
        StorageError, match=f"cannot write {tmp_path}/metrics.jsonl: Is a directory"
    ):
        EventLog(tmp_path)


def test_a_full_volume_is_named(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).symlink_to("/dev/full")
    with (
        pytest.raises(StorageError, match=r"metrics\.jsonl: No space left on device"),
        EventLog(tmp_path) as log,
    ):
        log.write(Finished(1))


WRITER = """
import sys
from pathlib import Path
from imagenet_workloads.telemetry.events import Progress
from imagenet_workloads.telemetry.log import EventLog

with EventLog(Path(sys.argv[1])) as log:
    for batch in range(10_000_000):
        log.write(Progress(0, batch, 100.0))
        if batch == 200:
            print("ready", flush=True)
"""


def test_a_killed_writer_leaves_all_of_its_lines(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.wait(timeout=30) == -signal.SIGKILL
    # Linux may end a write at the end of a page, so only the line in progress can be cut off.
    written, _, _ = (tmp_path / EVENTS_FILE).read_text().rpartition("\n")
    events = [event for _, event in read_events(tmp_path / EVENTS_FILE)]
    assert [event.batch for event in events if isinstance(event, Progress)] == list(
        range(len(written.splitlines()))
    )
    assert len(events) > 200


def test_the_readable_log_goes_to_stderr_and_a_file(tmp_path: Path) -> None:
    program = (
        "import logging, sys\n"
        "from pathlib import Path\n"
        "from imagenet_workloads.telemetry.events import Finished\n"
        "from imagenet_workloads.telemetry.log import EventLog, log_readably\n"
        "folder = Path(sys.argv[1])\n"
        "log_readably(folder / 'r0' / 'train.log')\n"
        "with EventLog(folder) as log: log.write(Finished(3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert done.stderr.endswith(" INFO training of 3 epochs is done\n")
    assert (tmp_path / "r0" / "train.log").read_text() == done.stderr
    with pytest.raises(StorageError, match="cannot write"):
        log_readably(tmp_path)


def test_the_document_lists_every_kind_of_event_with_its_fields() -> None:
    text = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+?) \|$", text, re.MULTILINE))
    for event in (
        Started(0, 1, 0, 0, "x", 1, "x"),
        Progress(0, 0, 1, 1, 1, 1, 1),
        EpochFinished(0, 1, 1, 1, 1, 1),
        Validated(0, 1, 1, 1, 1),
        CheckpointWritten(0, 0, "x", 1),
        Finished(1, 1, 1, 1, {"stepping": 1}, 1),
        Read(1, 1, 1),
    ):
        kind, fields = (document := json.loads(to_line(event, 0))).pop("event"), document
        assert re.findall(r"`(\w+)`", rows[kind]) == [name for name in fields if name != "time"]


def test_a_writer_that_comes_late_overwrites_nothing(tmp_path: Path) -> None:
    with EventLog(tmp_path) as first, EventLog(tmp_path) as second:
        for epochs in range(4):
            (first, second)[epochs % 2].write(Finished(epochs))
    assert [event for _, event in read_events(tmp_path / EVENTS_FILE)] == [
        Finished(epochs) for epochs in range(4)
    ]
