"""Plots speedup with the ideal, and images/s, over the number of workers or GPUs.

The plot of `imagenet-plot --scaling`. The numbers are the CSV table of `imagenetctl scale`; another
program may write the same columns.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.plot import QUIET_COLOUR, style

WORKERS = "workers"
GPUS = "GPUs"
ON_CPUS = "workers on CPUs, a stand-in for GPUs"

COLUMNS = ("strategy", "workers", "images_per_second", "speedup")

# From Okabe and Ito's palette. The second strategy of a colour is dashed; the markers are for black
# and white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS = "osD^vPX*"
_DASHES = ("-", "--", "-.", ":")
# Lines between two numbers, at most.
_MOST_LINES = 4
# From this ratio of largest to smallest number on, the axis is logarithmic.
_WIDE = 8


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes:
        number: The number of workers, or of GPUs.
        images_per_second: The speed of all workers.
        speedup: The speedup over one worker or GPU.
        unit: What is counted; a sweep has one unit.
    """

    number: int
    images_per_second: float
    speedup: float
    unit: str = WORKERS


def read_points(path: Path) -> dict[str, list[Point]]:
    """Return the points of each series by their number, without those that have no speed.

    A series is a strategy, or a network with one.

    Raises:
        InputError: The file is not such a table, or has no point.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path}: has no column {missing[0]!r}; write {','.join(COLUMNS)}")
            lines = [line for line in reader if line["speedup"]]
        found: dict[str, list[Point]] = {}
        for line in lines:
            point = Point(
                int(line.get("gpus") or 0) or int(line["workers"]),
                float(line["images_per_second"]),
                float(line["speedup"]),
                {"": WORKERS, "0": ON_CPUS}.get(line.get("gpus") or "", GPUS),
            )
            network = line.get("network")
            name = f"{network}, {line['strategy']}" if network else line["strategy"]
            found.setdefault(name, []).append(point)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not found:
        raise InputError(f"{path}: has no point with a speed, so there is nothing to plot")
    return {name: sorted(points, key=lambda point: point.number) for name, points in found.items()}


def draw_scaling(strategies: Mapping[str, Sequence[Point]], title: str) -> Figure:
    """Draw the figure; `savefig` writes it.

    Lines of two points hide each other, so many strategies with two numbers are bars.

    Args:
        strategies: The points of each strategy, at least one.
        title: The title.
    """
    numbers = sorted({point.number for points in strategies.values() for point in points})
    if len(numbers) == 2 and len(strategies) > _MOST_LINES:
        return _draw_bars(strategies, numbers, title)
    figure = Figure(figsize=(10, 5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    speedup, speed = figure.subplots(1, 2)
    # The ideal line starts at one, even if that was not measured.
    ends = sorted({1, numbers[-1]})
    speedup.plot(ends, ends, color=QUIET_COLOUR, linestyle=(0, (4, 3)), linewidth=1, label="ideal")
    for number, (name, points) in enumerate(strategies.items()):
        line = _line(number, name)
        places = [point.number for point in points]
        speedup.plot(places, [point.speedup for point in points], **line)
        speed.plot(places, [point.images_per_second for point in points], **line)
    (unit,) = {point.unit for points in strategies.values() for point in points}
    speedup.set_ylabel(f"speedup over one {'GPU' if unit == GPUS else 'worker'}")
    speed.set_ylabel("images/s, all workers")
    speed.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    ticks = sorted({1, *numbers})
    for axes in (speedup, speed):
        _place(axes, ticks, unit)
    if _is_wide(ticks):
        speedup.set_yscale("log", base=2)
        speedup.set_ylim(bottom=0.8)
        _name(speedup.yaxis, ticks)
    # Below both plots, where it hides no point.
    handles, labels = speedup.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _draw_bars(
    strategies: Mapping[str, Sequence[Point]], numbers: Sequence[int], title: str
) -> Figure:
    """Draw a row for each strategy, with a bar for each number."""
    height = 0.8 / len(numbers)
    figure = Figure(figsize=(10, 1.4 + 0.42 * len(strategies)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    speedup, speed = figure.subplots(1, 2, sharey=True)
    (unit,) = {point.unit for points in strategies.values() for point in points}
    for index, number in enumerate(numbers):
        found = [
            (row + (index + 0.5) * height - 0.4, point)
            for row, points in enumerate(strategies.values())
            for point in points
            if point.number == number
        ]
        rows = [row for row, _ in found]
        label = f"{number} {unit if number > 1 else unit.removesuffix('s')}"
        look = {"height": 0.9 * height, "color": _COLOURS[index], "label": label}
        for axes, values in (
            (speedup, [point.speedup for _, point in found]),
            (speed, [point.images_per_second for _, point in found]),
        ):
            form = "{:.2f}" if axes is speedup else "{:,.0f}"
            texts = axes.bar_label(axes.barh(rows, values, **look), fmt=form, padding=3, fontsize=8)
            for text in texts:
                # The line of the ideal may go through it.
                text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
    speedup.axvline(
        numbers[-1], color=QUIET_COLOUR, linestyle=(0, (4, 3)), linewidth=1, label="ideal"
    )
    speedup.set_yticks(range(len(strategies)), list(strategies))
    speedup.invert_yaxis()
    speedup.set_xlabel(f"speedup over one {'GPU' if unit == GPUS else 'worker'}")
    speed.set_xlabel(f"images/s, all {unit}")
    for axes in (speedup, speed):
        style(axes, legend=False)
        axes.margins(x=0.12)
    handles, labels = speedup.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _line(number: int, name: str) -> dict[str, Any]:
    """Return how the line of a strategy looks."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKS[number % len(_MARKS)],
        "markersize": 6,
        "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
        "linewidth": 1.8,
        "label": name,
    }


def _place(axes: Axes, numbers: Sequence[int], unit: str) -> None:
    """Label the horizontal axis, with ticks only at the measured numbers."""
    axes.set_xlabel(unit)
    if _is_wide(numbers):
        axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    _name(axes.xaxis, numbers)
    style(axes, legend=False)


def _name(axis: Axis, numbers: Sequence[int]) -> None:
    axis.set_major_locator(FixedLocator([float(number) for number in numbers]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


def _is_wide(numbers: Sequence[int]) -> bool:
    return numbers[-1] >= _WIDE * numbers[0]
