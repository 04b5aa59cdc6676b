"""How far earlier attempts came, by their logs."""

from pathlib import Path

import pytest

from imagenet_spec.metrics import TimePhase
from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.events import Progress, Started
from imagenet_workloads.telemetry.history import trained_before
from imagenet_workloads.telemetry.log import EventLog
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.reporter import Reporter


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
