"""What a worker reports when."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.log import EventLog
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.counts import LOSS_UNIT, Counts
from imagenet_workloads.train.reporter import LONGEST_SILENCE, Reporter

HALF_RIGHT = Counts(images=10, top1=5, top5=8, loss_units=round(20 / LOSS_UNIT))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A reporter, its clock, and what it has said."""

    def __init__(self, folder: Path, every: int = 20, batches: int = 100) -> None:
        self.clock, self.folder = Clock(), folder
        self.registry = Registry(Environment())
        recorder = TrainingRecorder(self.registry)
        self.reporter = Reporter(recorder, EventLog(folder), every, batches, self.clock)

    def steps(self, first: int, last: int, seconds: float) -> None:
        for batch in range(first, last + 1):
            self.clock.now += seconds
            self.reporter.step(Position(0, batch), 8, seconds, 0.0, lambda: 0.1, lambda: HALF_RIGHT)

    def lines(self) -> list[dict[str, Any]]:
        text = (self.folder / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def metric(self, name: str) -> float | None:
        labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
        return self.registry.exported.get_sample_value(f"imagenet_train_{name}", labels)


def test_a_line_every_so_many_batches_and_at_the_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, every=4, batches=10)
    scene.steps(1, 10, 0.5)
    assert [line["batch"] for line in scene.lines()] == [4, 8, 10]
    assert {line["imagesPerSecond"] for line in scene.lines()} == {16.0}
    first = scene.lines()[0]
    assert (first["top1"], first["top5"], round(first["loss"], 6)) == (0.5, 0.8, 2.0)
    assert first["learningRate"] == 0.1
    assert scene.metric("images_total") == 80
    assert scene.metric("batch") == 10
    assert scene.metric("images_per_second") == 16
    assert scene.metric("top1") == 0.5


def test_a_slow_training_is_heard_of(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.steps(1, 3, LONGEST_SILENCE)
    assert [line["batch"] for line in scene.lines()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(36.0, ["an epoch takes about 1.0 h on this CPU: 100 batches of 36.0 s"]), (35.9, [])],
)
def test_the_second_step_announces_an_epoch_of_hours(
    seconds: float, said: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "imagenet_workloads.train.reporter")
    scene = Scene(tmp_path)
    # The first one compiles.
    scene.steps(1, 1, 100.0)
    scene.steps(2, 4, seconds)
    assert [line for line in caplog.messages if line.startswith("an epoch")] == said


def test_pauses_do_not_count(tmp_path: Path) -> None:
    scene = Scene(tmp_path, every=2)
    scene.steps(1, 2, 1.0)
    scene.clock.now += 1000
    scene.reporter.pause()
    scene.steps(3, 4, 1.0)
    assert [line["imagesPerSecond"] for line in scene.lines()] == [8.0, 8.0]


def test_epochs_and_evaluations(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.reporter.epoch(2, 5.0, HALF_RIGHT, workers=3)
    scene.reporter.validation(2, HALF_RIGHT, top_k=3)
    epoch, validation = scene.lines()
    assert (epoch["imagesPerSecond"], epoch["top1"]) == (6.0, 0.5)
    assert (validation["images"], validation["top5"]) == (10, 0.8)
    assert scene.metric("validation_top1") == 0.5


def test_a_loss_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.reporter.validation(0, Counts(images=2, not_finite=1), top_k=0)
    assert "loss" not in scene.lines()[0]


def test_a_rank_without_a_log_writes_metrics_only(tmp_path: Path) -> None:
    registry = Registry(Environment())
    reporter = Reporter(TrainingRecorder(registry), None, 1, 10)
    reporter.step(Position(0, 1), 8, 0.1, 0.0, lambda: 0.1, lambda: HALF_RIGHT)
    reporter.validation(0, HALF_RIGHT, 0)
    assert list(tmp_path.iterdir()) == []
