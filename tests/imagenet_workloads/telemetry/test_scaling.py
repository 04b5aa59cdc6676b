"""The picture of a sweep, from its table to the command."""

import struct
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from imagenet_workloads.commands import plot as command
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.plot import SweepPoint, draw_scaling, read_points
from support.sentences import assert_says

TABLE = """strategy,workers,seconds,images_per_second,speedup,efficiency,top1
parameterServer,1,61,100.0,1.0,1.0,0.97
horovod,4,20,330.0,3.0,0.75,0.97
horovod,1,60,110.0,1.0,1.0,0.97
parameterServer,2,33,180.0,1.8,0.9,
single,1,60,,,,
"""


def write(folder: Path, text: str = TABLE) -> Path:
    path = folder / "digits.csv"
    path.write_text(text)
    return path


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each line by its label."""
    return {
        str(line.get_label()): list(
            zip(
                np.asarray(line.get_xdata(), float).tolist(),
                np.asarray(line.get_ydata(), float).tolist(),
                strict=True,
            )
        )
        for line in axes.get_lines()
    }


def ticks(axes: Axes) -> list[float]:
    found: list[float] = np.asarray(axes.get_xticks(), float).tolist()
    return found


def test_points_are_read_by_strategy_and_number(tmp_path: Path) -> None:
    assert read_points(write(tmp_path)) == {
        "parameterServer": [SweepPoint(1, 100.0, 1.0), SweepPoint(2, 180.0, 1.8)],
        "horovod": [SweepPoint(1, 110.0, 1.0), SweepPoint(4, 330.0, 3.0)],
    }


def test_each_network_is_a_line_of_its_own(tmp_path: Path) -> None:
    header, *lines = TABLE.splitlines()
    text = "\n".join([f"{header},network", *(f"{line},alexnet" for line in lines)])
    found = read_points(write(tmp_path, text))
    assert list(found) == [f"alexnet, {name}" for name in read_points(write(tmp_path))]


def test_every_strategy_has_a_line_of_its_own_look() -> None:
    strategies = {f"strategy {number}": [SweepPoint(1, 10.0, 1.0)] for number in range(28)}
    axes = draw_scaling(strategies, "digits").axes[0]
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(looks) == 1 + len(strategies)


@pytest.mark.parametrize(
    ("gpus", "label", "over"),
    [
        ("{}", "GPUs", "speedup over one GPU"),
        ("0", "workers on CPUs, a stand-in for GPUs", "speedup over one worker"),
    ],
)
def test_the_axes_say_whether_gpus_were_counted(
    tmp_path: Path, gpus: str, label: str, over: str
) -> None:
    header, *rows = TABLE.splitlines()
    text = "\n".join([f"{header},gpus", *(f"{row},{gpus.format(8)}" for row in rows)])
    speedup, speed = draw_scaling(read_points(write(tmp_path, text)), "digits").axes
    assert {speedup.get_xlabel(), speed.get_xlabel()} == {label}
    assert speedup.get_ylabel() == over
    assert lines(speedup)["ideal"][-1][0] == (8 if label == "GPUs" else 4)


def test_speedup_is_drawn_against_the_ideal(tmp_path: Path) -> None:
    speedup, speed = draw_scaling(read_points(write(tmp_path)), "digits").axes
    assert lines(speedup) == {
        "ideal": [(1, 1), (4, 4)],
        "parameterServer": [(1, 1), (2, 1.8)],
        "horovod": [(1, 1), (4, 3)],
    }
    assert lines(speed) == {
        "parameterServer": [(1, 100), (2, 180)],
        "horovod": [(1, 110), (4, 330)],
    }
    assert ticks(speedup) == ticks(speed) == [1, 2, 4]


def test_the_legend_names_every_line_and_hides_none(tmp_path: Path) -> None:
    figure = draw_scaling(read_points(write(tmp_path)), "digits")
    figure.savefig(tmp_path / "digits.png")
    (legend,) = figure.legends
    named = [text.get_text() for text in legend.get_texts()]
    assert named == ["ideal", "parameterServer", "horovod"]
    place = legend.get_window_extent()
    assert not any(axes.get_window_extent().overlaps(place) for axes in figure.axes)


def test_two_numbers_of_many_strategies_are_bars_that_hide_none() -> None:
    two = {
        f"strategy {number}": [SweepPoint(1, 10.0, 1.0), SweepPoint(2, 20.0, 1.9)]
        for number in range(5)
    }
    speedup, speed = draw_scaling({**two, "alone": [SweepPoint(1, 12.0, 1.0)]}, "digits").axes
    assert [text.get_text() for text in speedup.get_yticklabels()] == [*two, "alone"]
    bars = [
        [bar for bar in axes.patches if isinstance(bar, Rectangle)] for axes in (speedup, speed)
    ]
    widths = [sorted(bar.get_width() for bar in found) for found in bars]
    assert widths == [[1.0] * 6 + [1.9] * 5, [10.0] * 5 + [12.0] + [20.0] * 5]
    places = [bar.get_y() for bar in bars[1]]
    assert len(set(places)) == len(places) == 11
    assert [line.get_label() for line in speedup.get_lines()] == ["ideal"]


@pytest.mark.parametrize(("most", "scale"), [(4, "linear"), (7, "linear"), (8, "log"), (64, "log")])
def test_many_workers_are_drawn_by_doublings(most: int, scale: str) -> None:
    points = [SweepPoint(2, 200.0, 2.0), SweepPoint(most, 300.0, 3.0)]
    speedup, speed = draw_scaling({"horovod": points}, "digits").axes
    assert {speedup.get_xscale(), speedup.get_yscale(), speed.get_xscale()} == {scale}
    assert ticks(speedup) == [1, 2, most]
    assert lines(speedup)["ideal"] == [(1, 1), (most, most)]


def test_no_two_strategies_look_alike() -> None:
    many = {f"strategy {number}": [SweepPoint(1, 100.0, 1.0)] for number in range(20)}
    for axes in draw_scaling(many, "digits").axes:
        drawn = [line for line in axes.get_lines() if line.get_label() in many]
        assert len({(line.get_color(), line.get_marker()) for line in drawn}) == len(many)


def test_a_single_point_is_a_picture_too() -> None:
    speedup, _ = draw_scaling({"single": [SweepPoint(1, 100.0, 1.0)]}, "digits").axes
    assert lines(speedup)["single"] == [(1, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column 'strategy'; write strategy,workers,"),
        ("strategy,workers,speedup\n", "has no column 'images_per_second'"),
        (TABLE.splitlines()[0], "has no point with a speed"),
        (TABLE.replace("parameterServer,1", "parameterServer,one"), "cannot read"),
        (TABLE.replace("100.0,1.0", "100.0,fast"), "cannot read"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_points(write(tmp_path, text))


def test_the_command_writes_a_png_beside_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--scaling", str(write(tmp_path))]) == 0
    picture = tmp_path / "digits.png"
    assert capsys.readouterr().out == f"{picture}\n"
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">II", content[16:24]) == (1500, 750)


@pytest.mark.parametrize(
    "arguments",
    [[], ["folder", "--scaling", "table.csv"], ["--time", "a.json", "--scaling", "table.csv"]],
)
def test_the_command_draws_one_of_them(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 3
    sources = ("folders of a training", "--scaling CSV", "--time JSON", "--compare JSON", "one of")
    assert_says(capsys.readouterr().err, *sources)


def test_a_table_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--scaling", str(tmp_path / "none.csv")]) == 3
    assert f"cannot read {tmp_path}/none.csv: " in capsys.readouterr().err
