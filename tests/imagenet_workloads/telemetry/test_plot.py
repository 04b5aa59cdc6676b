import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from imagenet_workloads.commands import plot as command
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    Progress,
    Started,
    Validated,
)
from imagenet_workloads.telemetry.history import attempt_folders, read_runs
from imagenet_workloads.telemetry.log import EventLog
from imagenet_workloads.telemetry.plot import draw_training

START = 1.7e9

FIRST: list[tuple[float, Event]] = [
    (0, Started(0, 2, 0, 0)),
    (5, Progress(0, 10, 100.0, top1=0.2)),
    (10, Progress(0, 20, 110.0, top1=0.3)),
    (10, EpochFinished(0, 10.0, 210.0, top1=0.3)),
    (12, Validated(0, 360, 0.5)),
    (13, CheckpointWritten(1, 0, "epoch-0001-batch-00000000", 0.1)),
    (18, Progress(1, 10, 105.0, top1=0.55)),
]
SECOND: list[tuple[float, Event]] = [
    (30, Started(1, 2, 1, 0, "epoch-0001-batch-00000000")),
    (35, Progress(1, 10, 120.0, top1=0.6)),
    (40, EpochFinished(1, 10.0, 240.0, top1=0.7)),
    (42, Validated(1, 360, 0.875)),
    (43, Finished(2, 0.875)),
]


def write(folder: Path, events: list[tuple[float, Event]]) -> Path:
    times = iter([START + time for time, _ in events])
    with EventLog(folder, lambda: next(times)) as log:
        for _, event in events:
            log.write(event)
    return folder


@pytest.fixture
def job(tmp_path: Path) -> Path:
    job = tmp_path / "digits-6d1f"
    write(job / "attempts" / "r0", FIRST)
    write(job / "attempts" / "r1", SECOND)
    return job


def times(line: Line2D) -> list[float]:
    found: list[float] = np.asarray(line.get_xdata(), float).tolist()
    return found


def points(axes: Axes, label: str) -> list[tuple[float, float]]:
    """The points of the only line with this label."""
    (line,) = [line for line in axes.get_lines() if line.get_label() == label]
    values: list[float] = np.asarray(line.get_ydata(), float).tolist()
    return list(zip(times(line), values, strict=True))


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_accuracy_and_speed_over_wall_clock_time(job: Path) -> None:
    figure = draw_training(read_runs(attempt_folders([job])), "digits")
    accuracy, speed = figure.axes
    assert points(accuracy, "validation") == [(12.0, 0.5)]
    assert points(accuracy, "training") == [(10.0, 0.3)]
    assert points(speed, "epoch") == [(0.0, 210.0), (10.0, 210.0)]
    # One worker's speed in the log, both workers' in the picture.
    assert points(speed, "display interval") == [(5.0, 200.0), (10.0, 220.0), (18.0, 210.0)]
    drawn = [times(line) for line in accuracy.get_lines()]
    assert [42.0] in drawn, "the second attempt goes on at its own time"
    assert accuracy.get_title(loc="left") == "digits"
    assert speed.get_xlabel() == "seconds since the start"


def test_a_restart_is_marked_in_both_panels_and_named_once(job: Path) -> None:
    accuracy, speed = draw_training(read_runs(attempt_folders([job])), "digits").axes
    for axes in (accuracy, speed):
        assert [30.0, 30.0] in [times(line) for line in axes.get_lines()]
    assert texts(accuracy) == ["restart: attempt 1, epoch 1", "87.5%"]
    assert texts(speed) == []


def test_without_a_restart_no_mark(tmp_path: Path) -> None:
    accuracy, _ = draw_training(read_runs([write(tmp_path, FIRST)]), "digits").axes
    assert texts(accuracy) == ["50.0%"]


def test_a_training_that_has_only_started_is_an_empty_picture(tmp_path: Path) -> None:
    accuracy, speed = draw_training(read_runs([write(tmp_path, FIRST[:1])]), "digits").axes
    assert accuracy.get_lines()[:] == speed.get_lines()[:] == []
    assert accuracy.get_legend() is None


@pytest.mark.parametrize(
    ("seconds", "unit"), [(100, "seconds"), (7200, "minutes"), (86400, "hours"), (4e5, "days")]
)
def test_the_unit_of_time_fits_the_training(tmp_path: Path, seconds: float, unit: str) -> None:
    runs = read_runs([write(tmp_path, [*FIRST[:1], (seconds, Validated(0, 1, 0.5))])])
    assert draw_training(runs, "x").axes[1].get_xlabel() == f"{unit} since the start"


def test_attempts_are_in_the_order_of_time_however_given(job: Path) -> None:
    r0, r1 = job / "attempts" / "r0", job / "attempts" / "r1"
    for paths in ([r0, r1], [r1, r0], [job]):
        runs = read_runs(attempt_folders(paths))
        assert [run.start[1].attempt for run in runs] == [0, 1]


def test_attempt_ten_comes_after_attempt_nine(tmp_path: Path) -> None:
    for number in (10, 9):
        write(tmp_path / "attempts" / f"r{number}", FIRST)
    assert [folder.name for folder in attempt_folders([tmp_path])] == ["r9", "r10"]


def test_an_attempt_run_twice_by_hand_is_two_runs(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    runs = read_runs([write(tmp_path, [(time + 50, event) for time, event in FIRST])])
    assert [run.start[0] - START for run in runs] == [0, 50]
    assert [run.end - START for run in runs] == [18, 68]


def test_folders_without_a_training_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no metrics\.jsonl; give the folder of an attempt"):
        attempt_folders([tmp_path])
    empty = write(tmp_path / "r0", [])
    with pytest.raises(InputError, match="nothing to plot: no training has started in"):
        read_runs([empty])


def test_the_command_writes_a_png_beside_the_last_attempt(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(job)]) == 0
    picture = job / "attempts" / "r1" / "training.png"
    assert capsys.readouterr().out == f"{picture}\n"
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">II", content[16:24]) == (1350, 900)


def test_the_command_s_errors(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(job), "--output", str(tmp_path / "no" / "x.png")]) == 3
    assert command.main([str(job), "--output", "x.svg"]) == 3
    assert command.main([str(tmp_path)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        f"imagenet-plot: error: cannot write {tmp_path}/no/x.png: No such file or directory"
    )
    assert "x.svg: the picture is a PNG" in lines[1]
    assert "has no metrics.jsonl" in lines[2]


def test_without_matplotlib_it_says_what_to_install(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "imagenet_workloads.telemetry.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    assert command.main([str(job)]) == 1
    assert "type: pip install matplotlib" in capsys.readouterr().err
