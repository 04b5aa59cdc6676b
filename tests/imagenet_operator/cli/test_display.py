"""What a run shows: bars from what a pass saw, on a terminal, as lines, as JSON."""

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from imagenet_operator.cli.display import Bar, JsonLines, Lines, Terminal, bars
from imagenet_operator.clusters.local.runner import View
from imagenet_operator.reconcile.sample import Preparation
from imagenet_operator.reconcile.types import Event, Observed, PreparationJob
from imagenet_spec.curves import Epoch
from imagenet_spec.events import Validated
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.figures import SPEED
from imagenet_spec.resource.status import Status
from support import job_table, samples

DOCS = Path(__file__).parents[3] / "docs" / "running-locally.md"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DATASET = {
    "key": "k",
    "classes": 9,
    "images": {"train": 900, "validation": 100},
    "shards": 4,
    "droppedClasses": 1,
}


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": NOW.isoformat()}


def prepared(role: str, **fields: Any) -> PreparationJob:
    return PreparationJob(role=role, name=f"digits-{role}", uid=role, **fields)


def view(
    *jobs: PreparationJob, sample: dict[str, Any] | None = None, true: str = "", **status: Any
) -> View:
    conditions = [condition(kind) for kind in true.split()]
    job = job_table.JOBS["defaults"].model_copy(
        update={"status": Status.model_validate({"conditions": conditions, **status})}
    )
    observed = Observed(jobs={item.role: item for item in jobs})
    return View(job, observed, None if sample is None else samples.sample(NOW, **sample))


INDEXED = prepared("index", complete=True)
WAIT = {"imagesPerSecond": 90.0, "networkImagesPerSecond": 120.0, "share": 0.25}
TRAINING = {"attempt": 0, "epoch": 3, "epochs": 90, "batch": 10, "batches_per_epoch": 20}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view(), []),
        (view(prepared("fetch")), [Bar("fetch", 0, None, "bytes", "0.00 GiB")]),
        (
            view(
                prepared("fetch"),
                sample={"preparation": {"fetch": Preparation(fetched=3 << 30, to_fetch=4 << 30)}},
            ),
            [Bar("fetch", 3 << 30, 4 << 30, "bytes", "3.00 GiB of 4.00")],
        ),
        (
            view(
                prepared("fetch"),
                sample={"preparation": {"fetch": Preparation(fetch_files=1200, asked_files=300)}},
                dataset={"fetch": {"files": 1200, "askedFiles": 8}},
            ),
            [
                Bar(
                    "fetch",
                    300,
                    1200,
                    "files",
                    "asked the server for the versions of 300 of 1,200 files",
                )
            ],
        ),
        (
            view(
                prepared("fetch", complete=True),
                prepared("index"),
                dataset={"fetch": {"bytes": 4 << 30, "totalBytes": 4 << 30}},
            ),
            [
                Bar("fetch", 4 << 30, 4 << 30, "bytes", "4.00 GiB of 4.00", is_finished=True),
                Bar("index", 0, None, "images"),
            ],
        ),
        (view(prepared("index")), [Bar("index", 0, None, "images")]),
        (
            view(prepared("index"), sample={"preparation": {"index": Preparation(images=70)}}),
            [Bar("index", 70, None, "images")],
        ),
        (
            view(
                prepared("index"),
                dataset={"listing": {"requests": 12, "bytes": 3 << 20, "estimatedSeconds": 5}},
            ),
            [Bar("index", 0, None, "images", "index takes about 12 requests, 3 MiB, 5 seconds")],
        ),
        (
            view(
                INDEXED,
                prepared("pack", succeeded=1),
                dataset={
                    **DATASET,
                    "packing": {"requests": 1000, "bytes": 107 << 20, "estimatedSeconds": 9},
                },
            ),
            [
                Bar("index", 1000, 1000, "images", "9 classes, 1 dropped", is_finished=True),
                Bar(
                    "pack",
                    250,
                    1000,
                    "images",
                    "1 of 4 shards are done; 1,000 requests, 107 MiB, at least 9 seconds",
                ),
            ],
        ),
        (
            view(INDEXED, prepared("pack", succeeded=1), dataset={**DATASET, "shards": 10}),
            [
                Bar("index", 1000, 1000, "images", "9 classes, 1 dropped", is_finished=True),
                Bar(
                    "pack",
                    100,
                    1000,
                    "images",
                    "1 of 10 shards are done; 8 have training images, 2 validation images",
                ),
            ],
        ),
        (
            view(INDEXED, prepared("pack", succeeded=1), dataset=DATASET),
            [
                Bar("index", 1000, 1000, "images", "9 classes, 1 dropped", is_finished=True),
                Bar("pack", 250, 1000, "images", "1 of 4 shards are done"),
            ],
        ),
        (
            view(
                prepared("pack", succeeded=1),
                sample={"preparation": {"pack": Preparation(images=100, planned=250)}},
                dataset=DATASET,
            ),
            [Bar("pack", 350, 1000, "images", "1 of 4 shards are done")],
        ),
        (
            view(
                prepared("pack", succeeded=3),
                sample={"preparation": {"pack": Preparation(images=900)}},
                dataset=DATASET,
            ),
            [Bar("pack", 1000, 1000, "images", "3 of 4 shards are done")],
        ),
        (
            view(prepared("seal"), dataset=DATASET),
            [Bar("seal", 0, 1, "dataset", "verifying every shard")],
        ),
        (
            view(training={"attempt": 0}, true="DatasetReady"),
            [Bar("train", 0, 90, "epochs", "starting")],
        ),
        (
            view(training={"attempt": 1}, sample=TRAINING, true="DatasetReady"),
            [Bar("train", 0, 90, "epochs", "starting, attempt 1")],
        ),
        (
            view(training={"attempt": 1, "workers": 1}, true="DatasetReady"),
            [Bar("train", 0, 90, "epochs", "starting, attempt 1, 1 of 2 workers")],
        ),
        (
            view(
                training={"attempt": 0, "workers": 2},
                sample={**TRAINING, "accuracy": 0.5, "images_per_second": 99.0},
                true="DatasetReady",
            ),
            [
                Bar(
                    "train",
                    70,
                    1800,
                    "batches",
                    "epoch 4/90, batch 10/20",
                    99.0,
                    figures="top-1 0.500",
                )
            ],
        ),
        (
            view(training={"attempt": 0, "dataWait": WAIT}, sample=TRAINING, true="DatasetReady"),
            [
                Bar(
                    "train",
                    70,
                    1800,
                    "batches",
                    "epoch 4/90, batch 10/20, 25 % waiting for data",
                )
            ],
        ),
        (
            view(
                training={"attempt": 0},
                sample={**TRAINING, "validation_accuracy": 0.75},
                true="DatasetReady Succeeded",
            ),
            [Bar("train", 90, 90, "epochs", is_finished=True, figures="validation 0.750")],
        ),
        (
            # After early stopping.
            view(training={"attempt": 0, "epoch": 7}, true="DatasetReady Succeeded"),
            [Bar("train", 8, 8, "epochs", "", is_finished=True)],
        ),
    ],
)
def test_bars_show_the_stages_that_have_begun(seen: View, expected: list[Bar]) -> None:
    assert bars(seen) == expected


def training(epoch: int, batch: int) -> View:
    sample = {**TRAINING, "epoch": epoch, "batch": batch, "images_per_second": 1234.5}
    return view(training={"attempt": 0}, sample=sample, true="DatasetReady")


def test_lines_are_sparse() -> None:
    written: list[str] = []
    with Lines(written.append) as lines:
        for done in range(101):
            heard = {"preparation": {"pack": Preparation(images=done * 10)}}
            lines.show(view(prepared("pack"), sample=heard, dataset=DATASET))
        for epoch in range(3):
            for batch in range(20):
                lines.show(training(epoch, batch))

    assert [line for line in written if line.startswith("pack")] == [
        "pack: 10 of 1,000 images (0 of 4 shards are done)",
        "pack: 250 of 1,000 images (0 of 4 shards are done)",
        "pack: 500 of 1,000 images (0 of 4 shards are done)",
        "pack: 750 of 1,000 images (0 of 4 shards are done)",
        "pack: 1,000 of 1,000 images (0 of 4 shards are done)",
    ]
    assert [line for line in written if line.startswith("train")] == [
        "train: epoch 1/90, batch 0/20 at 1,234 images/s"
    ]


def test_of_a_program_without_a_log_every_epoch_has_a_line() -> None:
    template = {"spec": {"containers": [{"name": "main", "command": ["train.R"]}]}}
    own = job_table.manifest(training={"image": "r:1", "workers": {"template": template}})
    job = ImageNetJob.model_validate(own)
    written: list[str] = []
    lines = Lines(written.append)
    for epoch in range(3):
        seen = training(epoch, 0)
        lines.show(replace(seen, job=job.model_copy(update={"status": seen.job.status})))
    assert [line.partition(",")[0] for line in written] == [
        f"train: epoch {epoch}/{job.spec.training.epochs}" for epoch in (1, 2, 3)
    ]


EPOCH = Epoch(
    attempt=1,
    number=3,
    time=NOW.timestamp(),
    loss=0.51234,
    top1=0.8125,
    top5=0.99,
    learning_rate=0.0125,
    images=900,
    images_per_second=1234.5,
    validation=Validated(2, 100, 0.75, 0.98, 0.61234),
)
EPOCH_WORDS = (
    "loss 0.5123, top-1 0.812, validation loss 0.6123, validation top-1 0.750, "
    "learning rate 0.0125, 1,234 images/s, attempt 1"
)


@pytest.mark.parametrize(
    ("epoch", "words"),
    [
        (EPOCH, EPOCH_WORDS),
        (Epoch(0, 1, 0.0, loss=2.0, images_per_second=9.0), "loss 2.0000, 9 images/s"),
        (Epoch(0, 1, 0.0, validation=Validated(0, 5, 0.5)), "validation top-1 0.500"),
    ],
)
def test_a_finished_epoch_is_a_line(epoch: Epoch, words: str) -> None:
    written: list[str] = []
    Lines(written.append).show_epoch(epoch, 90)
    assert written == [f"epoch {epoch.number}/90: {words}"]


def test_a_finished_epoch_is_a_line_above_the_bars() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, color_system=None)
    with Terminal(console) as terminal:
        terminal.show_epoch(EPOCH, 90)
    assert f"epoch 3/90  {EPOCH_WORDS}\n" in output.getvalue()


def test_a_finished_epoch_for_scripts() -> None:
    output = io.StringIO()
    lines = JsonLines(output)
    lines.show_epoch(EPOCH, 90)
    lines.show_epoch(Epoch(0, 1, NOW.timestamp()), 90)
    full, empty = map(json.loads, output.getvalue().splitlines())
    assert full == {
        "type": "epoch",
        "time": "2026-01-01T00:00:00.000+00:00",
        "attempt": 1,
        "epoch": 3,
        "epochs": 90,
        "loss": 0.51234,
        "top1": 0.8125,
        "top5": 0.99,
        "validation": {"images": 100, "top1": 0.75, "top5": 0.98, "loss": 0.61234},
        "learningRate": 0.0125,
        "imagesPerSecond": 1234.5,
    }
    assert empty.keys() == full.keys()
    table = DOCS.read_text().partition("| Field of an epoch")[2].partition("\n\n")[0]
    names = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert re.findall(r"`(.+?)`", " ".join(names)) == list(full)
    assert empty["validation"] is empty["loss"] is empty["learningRate"] is None


def test_events_are_lines() -> None:
    written: list[str] = []
    with Lines(written.append) as lines:
        lines.show_event(Event("Normal", "Running", "all members of attempt 0 run"))
        lines.say("stopping")

    assert written == ["Running: all members of attempt 0 run", "stopping"]


def test_a_terminal_shows_bars_below_events() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, color_system=None)
    with Terminal(console) as terminal:
        terminal.show(view(INDEXED, prepared("pack", succeeded=2), dataset=DATASET))
        terminal.show_event(Event("Warning", "Restarting", "attempt 0: [bold]it[/bold] failed"))
        terminal.say("going on")
        terminal.show(training(44, 0))
        terminal.show(training(45, 0))

    shown = output.getvalue()
    assert "Restarting  attempt 0: [bold]it[/bold] failed" in shown, "markup is text"
    assert "going on" in shown
    lines = [line.strip() for line in shown.splitlines()]
    pack = next(line for line in reversed(lines) if line.startswith("pack"))
    train = next(line for line in reversed(lines) if line.startswith("train"))
    assert "50%" in pack
    assert pack.endswith("2 of 4 shards are done")
    assert "50%" in train
    assert "1,234 images/s" in train
    assert train.endswith("epoch 46/90, batch 0/20")


def shown_on(width: int, *views: View) -> list[str]:
    """The lines that stay on a terminal of so many columns."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=width, color_system=None)
    with Terminal(console) as terminal:
        for seen in views:
            terminal.show(seen)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", output.getvalue()).splitlines()


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("attempt", [0, 3])
def test_speed_time_and_figures_are_in_sight_on_any_terminal(width: int, attempt: int) -> None:
    sample = {
        **TRAINING,
        "attempt": attempt,
        "epoch": 44,
        "loss": 0.98765,
        "accuracy": 0.749,
        "validation_accuracy": 0.933,
        "learning_rate": 0.0123,
        "images_per_second": 12345.6,
    }
    seen = view(
        prepared("pack", complete=True, succeeded=4),
        sample=sample,
        dataset=DATASET,
        training={"attempt": attempt},
        true="DatasetReady",
    )

    lines = shown_on(width, seen, seen)

    assert all(len(line) <= width for line in lines)
    train = next(line for line in reversed(lines) if "train" in line)
    for part in ("━", "12,346 images/s", "--:--", "epoch 45/90, batch 10/20"):
        assert part in train
    below = lines[len(lines) - lines[::-1].index(train)]
    assert below.strip() == ("loss 0.9877, top-1 0.749, validation 0.933, learning rate 0.0123")
    assert ("49%" in train) == (width > 80)


def test_a_stage_says_how_long_it_will_take_and_then_how_long_it_took() -> None:
    def packed(images: int) -> View:
        heard = {"preparation": {"pack": Preparation(images=images)}}
        return view(prepared("pack"), sample=heard, dataset=DATASET)

    done = view(prepared("pack", complete=True, succeeded=4), dataset=DATASET)
    on_the_way, finished = (
        next(line for line in reversed(lines) if "pack" in line)
        for lines in (shown_on(100, packed(10), packed(20), packed(30)), shown_on(100, done))
    )

    assert re.search(r"[\d,]+ images/s +\d\d:\d\d left", on_the_way)
    assert "00:00" in finished
    assert "left" not in finished


def test_an_estimate_that_changes_keeps_rate_and_remaining_time() -> None:
    def listed(images: int, expected: int) -> View:
        heard = {"preparation": {"index": Preparation(images=images, planned=expected)}}
        return view(prepared("index"), sample=heard)

    lines = shown_on(100, *(listed(100 * step, 100_000 + step) for step in range(1, 6)))

    last = next(line for line in reversed(lines) if "index" in line)
    assert re.search(r"[\d,]+ images/s +(\d+:)?\d\d:\d\d left", last)


def test_json_lines_are_one_object_each() -> None:
    output = io.StringIO()
    with JsonLines(output) as lines:
        lines.show(training(1, 1))
        lines.say("for people")
        lines.show_event(Event("Warning", "Restarting", 'a "quoted"\nmessage'))

    (line,) = output.getvalue().splitlines()
    event = json.loads(line)
    assert (event["type"], event["level"], event["reason"]) == ("event", "Warning", "Restarting")
    assert event["message"] == 'a "quoted"\nmessage'
    assert datetime.fromisoformat(event["time"]).tzinfo is not None


def test_counters_of_the_preparation_never_run_backwards() -> None:
    """A shard that has ended is no longer reported, and not counted yet."""
    told: list[str] = []
    lines = Lines(told.append)
    for succeeded, images in ((0, 240), (0, 510), (0, 10), (1, 0), (3, 240)):
        heard = {"preparation": {"pack": Preparation(images=images)}}
        lines.show(
            view(INDEXED, prepared("pack", succeeded=succeeded), sample=heard, dataset=DATASET)
        )
    counts = [int(line.split()[1].replace(",", "")) for line in told if line.startswith("pack")]
    assert counts == sorted(counts) == [240, 510, 990]


def test_more_images_than_were_estimated_are_no_more_than_all() -> None:
    told: list[str] = []
    heard = {"preparation": {"index": Preparation(images=785, planned=685)}}
    Lines(told.append).show(view(prepared("index"), sample=heard))
    assert told == ["index: 785 of 785 images"]


@pytest.mark.parametrize(("speed", "words"), [(0.5, "an epoch takes 5h40m on CPUs"), (5.0, None)])
def test_an_epoch_of_hours_is_announced_with_the_first_steps(
    speed: float, words: str | None
) -> None:
    sample = {**TRAINING, "epoch": 0, "batch": 1, SPEED: speed}
    (bar,) = bars(view(sample=sample, training={"attempt": 0}))
    assert ("an epoch takes" in bar.note) is (words is not None)
    assert words is None or words in bar.note
