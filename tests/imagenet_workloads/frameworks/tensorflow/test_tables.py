"""The tutorial's tables."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from imagenet_spec import events
from imagenet_workloads.errors import StorageError
from imagenet_workloads.frameworks.tensorflow.tables import Tables


def test_a_line_for_each_report_and_each_evaluation(tmp_path: Path) -> None:
    for place in range(2):
        tables = Tables(tmp_path, 20, 2, lambda: datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC))
        # The second goes on with the first one's files.
        progress = events.Progress(place, 10, 100.0, 2.5, 0.1, 0.5, 0.05)
        tables.write(progress, lambda: 0.25)
        tables.write(events.Validated(place, 101, 0.875, 0.99, 1.5), lambda: 0.0)
        tables.write(events.Finished(2), lambda: 1 / 0)
    training = (tmp_path / "training.log").read_text().splitlines()
    assert [line.split() for line in training] == [
        ["Step", "Epoch", "Speed", "Loss", "FinLoss", "LR"],
        ["10", "0.5", "200.0", "2.500", "2.750", "0.05000"],
        ["30", "1.5", "200.0", "2.500", "2.750", "0.05000"],
    ]
    evaluation = (tmp_path / "evaluation.log").read_text().splitlines()
    assert [line.split() for line in evaluation] == [
        ["step", "epoch", "top1", "top5", "loss", "checkpoint_time(UTC)"],
        ["20", "1.0", "87.50", "99.00", "1.500", "2026-03-04", "05:06:07"],
        ["40", "2.0", "87.50", "99.00", "1.500", "2026-03-04", "05:06:07"],
    ]
    for table in (training, evaluation):
        assert len({len(line) for line in table}) == 1, "its columns are aligned"


def test_a_loss_that_is_none_is_no_number(tmp_path: Path) -> None:
    tables = Tables(tmp_path, 20, 1)
    tables.write(events.Progress(0, 10, 100.0), lambda: 0.25)
    tables.write(events.Validated(0, 1, 0.0), lambda: 0.0)
    assert (tmp_path / "training.log").read_text().count("nan") == 2
    assert "nan" in (tmp_path / "evaluation.log").read_text()


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot write .*training\.log"):
        Tables(tmp_path / "gone", 20, 1).write(events.Progress(0, 1, 1.0), lambda: 0.0)
