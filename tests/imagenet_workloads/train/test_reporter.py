"""What a worker reports when."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from imagenet_spec.events import Progress, Started
from imagenet_spec.metrics import TimePhase
from imagenet_workloads.checkpoint import Position
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.event_log import EventLog, trained_before
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.counts import LOSS_UNIT, Counts
from imagenet_workloads.train.reporter import LONGEST_SILENCE, Reporter, growth_reported
from support.sentences import assert_says

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
    ("seconds", "facts"), [(36.0, ("1.0 h", "CPU", "100 batches of 36.0 s")), (35.9, ())]
)
def test_the_second_step_announces_an_epoch_of_hours(
    seconds: float, facts: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "imagenet_workloads.train.reporter")
    scene = Scene(tmp_path)
    # The first one compiles.
    scene.steps(1, 1, 100.0)
    scene.steps(2, 4, seconds)
    announced = [line for line in caplog.messages if line.startswith("an epoch")]
    assert len(announced) == (1 if facts else 0)
    assert_says("".join(announced), *facts)


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


def write_run(
    output: Path, attempt: int, *reached: tuple[int, int], training: str | None = "uid/hash"
) -> None:
    log = EventLog(output / "attempts" / f"r{attempt}")
    log.write(Started(attempt, 2, 0, 0, batches_per_epoch=10, training=training))
    for epoch, batch in reached:
        log.write(Progress(epoch, batch, 100.0))


def test_the_furthest_attempt_counts(tmp_path: Path) -> None:
    assert trained_before(tmp_path, "uid/hash") == 0
    write_run(tmp_path, 0, (0, 5), (0, 10), (1, 5))
    write_run(tmp_path, 1, (1, 4))
    assert trained_before(tmp_path, "uid/hash") == 1.5


@pytest.mark.parametrize("training", ["uid/other", None])
def test_another_training_in_the_same_folder_does_not(tmp_path: Path, training: str | None) -> None:
    write_run(tmp_path, 0, (3, 5), training=training)
    assert trained_before(tmp_path, "uid/hash") == 0


def test_steps_up_to_there_are_redone(tmp_path: Path) -> None:
    write_run(tmp_path, 0, (1, 2))
    recorder = TrainingRecorder(Registry(Environment()))
    reporter = Reporter(recorder, None, 5, 10, trained_before=trained_before(tmp_path, "uid/hash"))
    reporter.recorder.begin_steps()
    spent = []
    for batch in (1, 2, 3):
        before = recorder.time.seconds()
        reporter.step(Position(1, batch), 8, 1.0, 0.0, lambda: 0.1, Counts)
        after = recorder.time.seconds()
        spent += [phase for phase in TimePhase if after[phase] > before[phase]]
    assert spent == [TimePhase.REDONE, TimePhase.REDONE, TimePhase.STEPPING]


INTERVAL = 0.01


def test_each_growth_is_reported(tmp_path: Path) -> None:
    reports = threading.Semaphore(0)
    with growth_reported(tmp_path, reports.release, INTERVAL):
        for size in (1, 2, 3):
            (tmp_path / "weights").write_bytes(bytes(size))
            assert reports.acquire(timeout=60)


def test_nothing_is_reported_after_the_block(tmp_path: Path) -> None:
    reports: list[None] = []
    with growth_reported(tmp_path, lambda: reports.append(None), INTERVAL):
        pass
    assert "file growth" not in [thread.name for thread in threading.enumerate()]
    assert reports == []


def test_files_that_others_write_are_no_progress(tmp_path: Path) -> None:
    reports = threading.Semaphore(0)
    with growth_reported(tmp_path, reports.release, INTERVAL, pattern="model-*"):
        (tmp_path / "another").write_bytes(b"1")
        assert not reports.acquire(timeout=10 * INTERVAL)
        (tmp_path / "model-0001").write_bytes(b"1")
        assert reports.acquire(timeout=60)
