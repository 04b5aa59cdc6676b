import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from imagenet_spec.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    Progress,
    Read,
    Started,
    Validated,
    from_line,
    from_log_line,
    to_line,
)

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


LOGGED = Started | Progress | EpochFinished | Validated
FOLDERS = st.none() | st.from_regex(r"[a-z0-9/-]+", fullmatch=True)


@settings(deadline=None)
@example(event=Progress(0, 0, 0.0, learning_rate=-0.0))
@given(
    event=EVENTS.filter(lambda event: isinstance(event, LOGGED) and not hasattr(event, "workers"))
    | st.builds(Started, counts, counts, counts, counts, FOLDERS)
)
def test_a_line_of_the_log_says_its_event(event: LOGGED) -> None:
    found = from_log_line(f"2026-01-02 03:04:05,678 INFO {event.sentence()}")
    assert found is not None
    assert type(found) is type(event)
    assert found.sentence() == event.sentence()


def test_a_figure_of_the_log_is_rounded() -> None:
    event = Progress(3, 20, 99.54, loss=2.123456, top1=0.5, learning_rate=0.0125)
    found = from_log_line(f"2026-01-02 03:04:05,678 INFO {event.sentence()}")
    assert found == Progress(3, 20, 99.5, loss=2.1235, top1=0.5, learning_rate=0.0125)


@pytest.mark.parametrize(
    "line", ["", "epoch 4", "2026-01-02 03:04:05,678 WARNING the epoch 4 validated on 3 images"]
)
def test_other_lines_of_the_log_say_no_event(line: str) -> None:
    assert from_log_line(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "not json",
        '{"event": "finished", "epochs": 1}',
        '{"event": "finished", "time": 1}',
        '{"event": "finished", "time": 1e20, "epochs": 1}',
        '{"event": "finished", "time": -1, "epochs": 1}',
        '{"event": "finished", "time": 1, "epochs": NaN}',
        '{"event": "finished", "time": 1, "epochs": 1e999}',
        '{"event": "finished", "time": 1, "epochs": 1, "seconds": {"stepping": Infinity}}',
        f'{{"event": "finished", "time": 1, "epochs": {"9" * 400}}}',
        "[" * 100_000,
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


def test_the_document_lists_every_kind_of_event_with_its_fields() -> None:
    text = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+?) \|$", text, re.MULTILINE))
    for event in (
        Started(0, 1, 0, 0, "x", 1, "x", 1, "x", {"x": "x"}),
        Progress(0, 0, 1, 1, 1, 1, 1),
        EpochFinished(0, 1, 1, 1, 1, 1),
        Validated(0, 1, 1, 1, 1),
        CheckpointWritten(0, 0, "x", 1),
        Finished(1, 1, 1, 1, {"stepping": 1}, 1, 1, 1, 1, "top1", 1, 1),
        Read(1, 1, 1),
    ):
        kind, fields = (document := json.loads(to_line(event, 0))).pop("event"), document
        assert re.findall(r"`(\w+)`", rows[kind]) == [name for name in fields if name != "time"]
