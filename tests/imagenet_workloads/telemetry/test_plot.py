import struct
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from imagenet_spec.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    Progress,
    Started,
    Validated,
    attempt_folders,
    read_runs,
)
from imagenet_workloads.commands import plot as command
from imagenet_workloads.telemetry.event_log import EventLog
from imagenet_workloads.telemetry.plot import draw_training
from support.sentences import assert_says

START = 1.7e9

FIRST: list[tuple[float, Event]] = [
    (0, Started(0, 2, 0, 0, batches_per_epoch=20)),
    (5, Progress(0, 10, 100.0, loss=3.0, top1=0.2, learning_rate=0.5)),
    (10, Progress(0, 20, 110.0, loss=2.0, top1=0.3, learning_rate=1.0)),
    (10, EpochFinished(0, 10.0, 210.0, loss=2.0, top1=0.3)),
    (12, Validated(0, 360, 0.5, loss=1.75)),
    (13, CheckpointWritten(1, 0, "epoch-0001-batch-00000000", 0.1)),
    (18, Progress(1, 10, 105.0, loss=1.5, top1=0.55, learning_rate=1.0)),
    (23, Progress(1, 20, 105.0, loss=1.5, top1=0.55, learning_rate=1.0)),
    (23, EpochFinished(1, 10.0, 210.0, loss=1.5, top1=0.55)),
]
SECOND: list[tuple[float, Event]] = [
    (30, Started(1, 2, 1, 0, "epoch-0001-batch-00000000", batches_per_epoch=20)),
    (40, Progress(1, 20, 120.0, loss=1.25, top1=0.6, learning_rate=0.1)),
    (40, EpochFinished(1, 10.0, 240.0, loss=1.25, top1=0.7)),
    (42, Validated(1, 360, 0.875)),
    (43, Finished(2, 0.875)),
]


def write(folder: Path, events: list[tuple[float, Event]]) -> Path:
    times = iter([START + time for time, _ in events])
    with closing(EventLog(folder, lambda: next(times))) as log:
        for _, event in events:
            log.write(event)
    return folder


@pytest.fixture
def job(tmp_path: Path) -> Path:
    job = tmp_path / "digits-6d1f"
    write(job / "attempts" / "r0", FIRST)
    write(job / "attempts" / "r1", SECOND)
    return job


def points(line: Line2D) -> list[tuple[float, float]]:
    places, values = (np.asarray(data, float).tolist() for data in line.get_data())
    return list(zip(places, values, strict=True))


def named(axes: Axes, label: str) -> list[tuple[float, float]]:
    """The points of the only line with this label."""
    (line,) = [line for line in axes.get_lines() if line.get_label() == label]
    return points(line)


def dotted(axes: Axes) -> list[list[tuple[float, float]]]:
    return [points(line) for line in axes.get_lines() if line.get_linestyle() == ":"]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for found in figure.legends for text in found.get_texts()]


def ticks(figure: Figure) -> dict[float, str]:
    figure.draw_without_rendering()
    axes = figure.axes[-1]
    places = (float(place) for place in axes.get_xticks())
    labels = (text.get_text() for text in axes.get_xticklabels())
    return dict(zip(places, labels, strict=True))


def test_loss_accuracy_learning_rate_and_speed_by_epoch(job: Path) -> None:
    figure = draw_training(read_runs([job / "attempts" / "r0"]), "digits")
    loss, accuracy, rate, speed = figure.axes
    assert named(loss, "training") == [(1, 2.0), (2, 1.5)]
    assert named(loss, "validation") == [(1, 1.75)]
    assert named(accuracy, "training") == [(1, 0.3), (2, 0.55)]
    assert named(accuracy, "validation") == [(1, 0.5)]
    # The log has means since the epoch's beginning.
    assert named(loss, "training, display intervals")[:2] == [(0.5, 3.0), (1.0, 1.0)]
    assert points(rate.get_lines()[0])[:3] == [(0, 0.5), (0.5, 0.5), (1.0, 1.0)]
    assert points(speed.get_lines()[0]) == [(0, 210.0), (1, 210.0), (1, 210.0), (2, 210.0)]
    # One worker's speed in the log, both workers' in the picture.
    assert points(speed.get_lines()[1])[:2] == [(0.5, 200.0), (1.0, 220.0)]
    names = [axes.get_ylabel() for axes in figure.axes]
    assert names == ["loss (nats)", "top-1 accuracy", "learning rate", "images/s"]
    assert legend(figure) == ["training, display intervals", "training", "validation"]


def test_what_was_lost_is_apart_from_what_was_kept(job: Path) -> None:
    figure = draw_training(read_runs(attempt_folders(job)), "digits")
    attempts, loss, accuracy, _, speed = figure.axes
    assert named(loss, "training") == [(1, 2.0), (2, 1.25)]
    assert named(accuracy, "validation") == [(1, 0.5), (2, 0.875)]
    assert dotted(loss) == [[(1, 2.0), (2, 1.5)]]
    assert dotted(speed) == [[(1, 210.0), (2, 210.0)]]
    # One bar of each attempt for what was kept, and one of the first for what was lost.
    bars = [
        (bar.get_x(), bar.get_width()) for bar in attempts.patches if isinstance(bar, Rectangle)
    ]
    assert bars == [(0, 1), (1, 1), (1, 1)]
    assert [text.get_text() for text in attempts.get_yticklabels()] == ["0", "1"]
    assert legend(figure)[-2:] == ["restart", "lost, trained again"]


def test_an_attempt_may_only_validate(tmp_path: Path) -> None:
    """The one before ended between the epoch and its validation, or its program after it."""
    write(tmp_path / "attempts" / "r0", FIRST[:5])
    later: list[tuple[float, Event]] = [
        (30, Started(1, 2, 1, 0, batches_per_epoch=20)),
        (31, Validated(0, 360, 0.5, loss=1.75)),
    ]
    write(tmp_path / "attempts" / "r1", later)
    _, loss, accuracy, *_ = draw_training(read_runs(attempt_folders(tmp_path)), "x").axes
    assert named(loss, "training") == [(1, 2.0)]
    assert named(accuracy, "validation") == [(1, 0.5), (1, 0.5)]


def test_a_restart_is_marked_in_every_panel(job: Path) -> None:
    for axes in draw_training(read_runs(attempt_folders(job)), "digits").axes:
        assert [(1, 0), (1, 1)] in [points(line) for line in axes.get_lines()]


def test_the_title_says_what_it_is_and_the_line_below_what_came_out(job: Path) -> None:
    figure = draw_training(read_runs(attempt_folders(job)), "digits: loss by epoch")
    assert figure.get_suptitle() == "digits: loss by epoch"
    outcome = figure.axes[0].get_title(loc="left")
    assert_says(
        outcome, "2 epochs in 43 s", "2 attempts", "best validation top-1 87.50%", "epoch 2"
    )


def test_below_an_epoch_is_the_time_at_which_it_was_done(job: Path) -> None:
    found = ticks(draw_training(read_runs(attempt_folders(job)), "digits"))
    assert (found[0.0], found[1.0], found[2.0]) == ("0\n0 s", "1\n10 s", "2\n40 s")


def test_a_training_that_has_only_started_is_an_empty_picture(tmp_path: Path) -> None:
    figure = draw_training(read_runs([write(tmp_path, FIRST[:1])]), "digits")
    assert [list(axes.get_lines()) for axes in figure.axes] == [[], [], [], []]
    assert figure.legends == []


@pytest.mark.parametrize(("last", "scale"), [(0.5, "linear"), (0.005, "log")])
def test_losses_of_several_magnitudes(tmp_path: Path, last: float, scale: str) -> None:
    events = [*FIRST[:4], (20.0, EpochFinished(1, 10.0, 210.0, loss=last))]
    figure = draw_training(read_runs([write(tmp_path, events)]), "x")
    assert figure.axes[0].get_yscale() == scale


def boxes(figure: Figure) -> list[Bbox]:
    """The places of all texts outside of the panels."""
    figure.draw_without_rendering()
    texts = [text for found in figure.legends for text in found.get_texts()]
    lowest = figure.axes[-1]
    for axis in (*(axes.yaxis for axes in figure.axes), lowest.xaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [axis.label, *(tick.label1 for tick in ticks)]
    return [text.get_window_extent() for text in texts if text.get_text()]


@pytest.mark.parametrize(("epochs", "attempts"), [(1, 1), (10, 3), (90, 1), (90, 13)])
def test_no_label_is_above_another(tmp_path: Path, epochs: int, attempts: int) -> None:
    share = epochs // attempts
    for number in range(attempts):
        first, time = number * share, 36000.0 * number
        events: list[tuple[float, Event]] = [
            (time, Started(number, 8, first, 0, batches_per_epoch=10))
        ]
        last = epochs if number == attempts - 1 else min(epochs, first + share + 1)
        for epoch in range(first, last):
            time += 400
            events += [
                (time, Progress(epoch, 10, 12345.0, 1 / (1 + epoch), 0.5, 0.9, 0.1)),
                (time, EpochFinished(epoch, 400.0, 98765.0, 1 / (1 + epoch), 0.5)),
                (time, Validated(epoch, 50000, 0.5, loss=1.0)),
            ]
        write(tmp_path / "attempts" / f"r{number}", events)
    found = boxes(draw_training(read_runs(attempt_folders(tmp_path)), "resnet50-1f0c8a11"))
    pairs = [(a, b) for number, a in enumerate(found) for b in found[:number] if a.overlaps(b)]
    assert pairs == []


def test_a_link_to_an_attempt_stands_for_its_job(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "jobs" / "digits"
    folder.mkdir(parents=True)
    (folder / "model").symlink_to(job / "attempts" / "r1")
    for path, attempts in (
        (folder / "model", ["r0", "r1"]),
        (folder, ["r0", "r1"]),
        (job, ["r0", "r1"]),
        (job / "attempts" / "r1", ["r1"]),
    ):
        assert [found.name for found in attempt_folders(path)] == attempts
    assert command.main([str(folder / "model")]) == 0
    assert (job / "attempts" / "r1" / "training.png").is_file()


def test_attempts_are_in_the_order_of_time_however_given(job: Path) -> None:
    r0, r1 = job / "attempts" / "r0", job / "attempts" / "r1"
    for folders in ([r0, r1], [r1, r0], attempt_folders(job)):
        runs = read_runs(folders)
        assert [run.start[1].attempt for run in runs] == [0, 1]


def test_attempt_ten_comes_after_attempt_nine(tmp_path: Path) -> None:
    for number in (10, 9):
        write(tmp_path / "attempts" / f"r{number}", FIRST)
    assert [folder.name for folder in attempt_folders(tmp_path)] == ["r9", "r10"]


def test_an_attempt_run_twice_by_hand_is_two_runs(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    runs = read_runs([write(tmp_path, [(time + 50, event) for time, event in FIRST])])
    assert [run.start[0] - START for run in runs] == [0, 50]
    assert [run.end - START for run in runs] == [23, 73]


def test_folders_without_a_training_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(tmp_path)]) == 3
    assert command.main([str(write(tmp_path / "r0", []))]) == 3
    missing, empty = capsys.readouterr().err.splitlines()
    assert_says(missing, f"{tmp_path}", "no metrics.jsonl", "folder of an attempt")
    assert_says(empty, "no training has started", "r0")


def test_the_command_writes_a_png_beside_the_last_attempt(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(job)]) == 0
    picture = job / "attempts" / "r1" / "training.png"
    assert capsys.readouterr().out == f"{picture}\n"
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height > width) == (1350, True)


def test_the_command_s_errors(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(job), "--output", str(tmp_path / "no" / "x.png")]) == 3
    assert command.main([str(job), "--output", "x.svg"]) == 3
    assert command.main([str(tmp_path)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert_says(lines[0], "error", f"{tmp_path}/no/x.png", "No such file or directory")
    assert "x.svg: the picture is a PNG" in lines[1]
    assert "has no metrics.jsonl" in lines[2]


def test_without_matplotlib_it_says_what_to_install(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "imagenet_workloads.telemetry.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    assert command.main([str(job)]) == 1
    assert "type: pip install matplotlib" in capsys.readouterr().err
