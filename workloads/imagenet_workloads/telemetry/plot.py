"""The pictures of `imagenet-plot`: a training over time, a sweep, and the time of a job.

They are drawn from the runs of `history`, the CSV table of `imagenetctl scale` (another program may
write the same columns), and the JSON of `imagenetctl report`. No display is needed.
"""

import csv
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
    StrMethodFormatter,
)

from imagenet_spec.metrics import TimePhase
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.history import Run

# Okabe and Ito's palette for colour-blind readers.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
PALETTE = (BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
QUIET_COLOUR = "#6b7280"

WORKERS = "workers"
GPUS = "GPUs"
ON_CPUS = "workers on CPUs, a stand-in for GPUs"
COLUMNS = ("strategy", "workers", "images_per_second", "speedup")
# The second strategy of a colour is dashed; the markers are for black and white.
_MARKS = "osD^vPX*"
_DASHES = ("-", "--", "-.", ":")
# Lines between two numbers, at most.
_MOST_LINES = 4
# From this ratio of largest to smallest number on, the axis is logarithmic.
_WIDE = 8

_LOST_PHASES = (TimePhase.REDONE.value, "restarting", "unreported")

# A time and a value.
Point = tuple[float, float]
Clock = Callable[[float], float]


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _style(axes: Axes, *, legend: bool = False) -> None:
    """Apply the common style, and add a legend at the lower right if there is anything to name."""
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9ca3af")
    axes.tick_params(colors="#374151", labelsize=9)
    handles, _ = axes.get_legend_handles_labels()
    if handles and legend:
        axes.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)


def _separate_thousands(axis: Axis) -> None:
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _entitle(figure: Figure, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")


def draw_training(runs: Sequence[Run], title: str) -> Figure:
    """Draw accuracy and speed over time, with restarts; `savefig` writes the figure.

    Args:
        runs: In the order of time, at least one.
        title: The title.
    """
    figure = _figure(9, 6)
    accuracy, speed = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    clock, unit = _clock(runs)
    # Marks and strong thin lines help while there are few points, and smear when there are many.
    marked = sum(len(run.validations) for run in runs) <= 60
    faint = sum(len(run.progress) for run in runs) > 500
    for number, run in enumerate(runs):
        _draw_accuracy(accuracy, run, clock, labelled=number == 0, marked=marked)
        _draw_speed(speed, run, clock, labelled=number == 0, alpha=0.2 if faint else 0.45)
    accuracy.set_ylabel("top-1 accuracy")
    accuracy.set_ylim(0, 1.03)
    accuracy.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    accuracy.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=22 if runs[1:] else 8)
    speed.set_ylabel("images/s, all workers")
    speed.set_ylim(bottom=0)
    _separate_thousands(speed.yaxis)
    speed.set_xlabel(f"{unit} since the start")
    speed.set_xlim(0, max(clock(max(run.end for run in runs)), 1e-3) * 1.02)
    speed.xaxis.set_major_locator(MaxNLocator(nbins=10))
    for axes in (accuracy, speed):
        _style(axes, legend=True)
        for run in runs[1:]:
            restart = clock(run.start[0])
            axes.axvline(restart, color=QUIET_COLOUR, linestyle=(0, (4, 3)), linewidth=1, zorder=1)
    _name_restarts(accuracy, runs, clock)
    _name_the_best(accuracy, runs, clock)
    figure.align_ylabels()
    return figure


def _clock(runs: Sequence[Run]) -> tuple[Clock, str]:
    """Return the conversion of times to the largest unit that occurs three times."""
    start = runs[0].start[0]
    seconds = max(run.end for run in runs) - start
    divisor, unit = next(
        (size, name)
        for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
        if seconds >= 3 * size or size == 1
    )
    return (lambda time: (time - start) / divisor), unit


def _draw_accuracy(axes: Axes, run: Run, clock: Clock, labelled: bool, marked: bool) -> None:
    so_far: list[Point] = []
    for _, group in itertools.groupby(run.progress, key=lambda progress: progress[1].epoch):
        so_far += [(clock(time), event.top1) for time, event in group if event.top1 is not None]
        # The counts restart with each epoch, and so does the line.
        so_far.append((math.nan, math.nan))
    label = "training, within the epoch" if labelled else None
    _line(axes, so_far, label, color=BLUE, linewidth=0.8, alpha=0.35)
    marks = {"linewidth": 1.8, "marker": "o" if marked else None, "markersize": 4}
    training = [(clock(time), event.top1) for time, event in run.epochs if event.top1 is not None]
    validation = [(clock(time), event.top1) for time, event in run.validations]
    for label, color, points in (
        ("training", BLUE, training),
        ("validation", VERMILION, validation),
    ):
        _line(axes, points, label if labelled else None, color=color, **marks)


def _draw_speed(axes: Axes, run: Run, clock: Clock, labelled: bool, alpha: float) -> None:
    # Only one worker writes the log; all are synchronous, so they have the same speed.
    workers = run.start[1].workers
    intervals = [(clock(time), event.images_per_second * workers) for time, event in run.progress]
    label = "display interval" if labelled else None
    _line(axes, intervals, label, color=GREEN, linewidth=0.8, alpha=alpha)
    label = "epoch" if labelled else None
    for time, event in run.epochs:
        span = [
            (clock(time - event.seconds), event.images_per_second),
            (clock(time), event.images_per_second),
        ]
        _line(axes, span, label, color=GREEN, linewidth=2.2, solid_capstyle="butt")
        label = None


def _line(axes: Axes, points: Sequence[Point], label: str | None, **look: Any) -> None:
    if points:
        times, values = zip(*points, strict=True)
        axes.plot(times, values, label=label or "_", **look)


def _name_restarts(axes: Axes, runs: Sequence[Run], clock: Clock) -> None:
    """Label each restart with its attempt and epoch; many restarts only with the attempt."""
    few = len(runs) <= 4
    for run in runs[1:]:
        start = run.start[1]
        name = f"restart: attempt {start.attempt}, epoch {start.epoch}" if few else "↻"
        axes.annotate(
            name,
            xy=(clock(run.start[0]), 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
            color=QUIET_COLOUR,
        )


def _name_the_best(axes: Axes, runs: Sequence[Run], clock: Clock) -> None:
    """Label the last validation with its accuracy."""
    found = [(time, event.top1) for run in runs for time, event in run.validations]
    if not found:
        return
    time, top1 = max(found)
    axes.annotate(
        f"{top1:.1%}",
        xy=(clock(time), top1),
        xytext=(-2, -16 if top1 > 0.2 else 8),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        fontweight="bold",
        color=VERMILION,
    )


@dataclass(frozen=True)
class SweepPoint:
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


def read_points(path: Path) -> dict[str, list[SweepPoint]]:
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
        found: dict[str, list[SweepPoint]] = {}
        for line in lines:
            point = SweepPoint(
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


def draw_scaling(strategies: Mapping[str, Sequence[SweepPoint]], title: str) -> Figure:
    """Draw speedup with the ideal, and images/s, over the number of workers or GPUs.

    Lines of two points hide each other, so many strategies with two numbers are bars.

    Args:
        strategies: The points of each strategy, at least one.
        title: The title.
    """
    numbers = sorted({point.number for points in strategies.values() for point in points})
    if len(numbers) == 2 and len(strategies) > _MOST_LINES:
        return _draw_bars(strategies, numbers, title)
    figure = _figure(10, 5)
    speedup, speed = figure.subplots(1, 2)
    # The ideal line starts at one, even if that was not measured.
    ends = sorted({1, numbers[-1]})
    speedup.plot(ends, ends, color=QUIET_COLOUR, linestyle=(0, (4, 3)), linewidth=1, label="ideal")
    for number, (name, points) in enumerate(strategies.items()):
        look: dict[str, Any] = {
            "color": PALETTE[number % len(PALETTE)],
            "marker": _MARKS[number % len(_MARKS)],
            "markersize": 6,
            "linestyle": _DASHES[number // len(PALETTE) % len(_DASHES)],
            "linewidth": 1.8,
            "label": name,
        }
        places = [point.number for point in points]
        speedup.plot(places, [point.speedup for point in points], **look)
        speed.plot(places, [point.images_per_second for point in points], **look)
    (unit,) = {point.unit for points in strategies.values() for point in points}
    speedup.set_ylabel(f"speedup over one {'GPU' if unit == GPUS else 'worker'}")
    speed.set_ylabel("images/s, all workers")
    _separate_thousands(speed.yaxis)
    ticks = sorted({1, *numbers})
    is_wide = ticks[-1] >= _WIDE
    for axes in (speedup, speed):
        axes.set_xlabel(unit)
        if is_wide:
            axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        _tick_only(axes.xaxis, ticks)
        _style(axes)
    if is_wide:
        speedup.set_yscale("log", base=2)
        speedup.set_ylim(bottom=0.8)
        _tick_only(speedup.yaxis, ticks)
    # Below both plots, where it hides no point.
    handles, labels = speedup.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    _entitle(figure, title)
    return figure


def _draw_bars(
    strategies: Mapping[str, Sequence[SweepPoint]], numbers: Sequence[int], title: str
) -> Figure:
    """Draw a row for each strategy, with a bar for each number."""
    height = 0.8 / len(numbers)
    figure = _figure(10, 1.4 + 0.42 * len(strategies))
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
        look = {"height": 0.9 * height, "color": PALETTE[index], "label": label}
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
        _style(axes)
        axes.margins(x=0.12)
    handles, labels = speedup.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    _entitle(figure, title)
    return figure


def _tick_only(axis: Axis, numbers: Sequence[int]) -> None:
    """Label the measured numbers alone."""
    axis.set_major_locator(FixedLocator([float(number) for number in numbers]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


@dataclass(frozen=True)
class Report:
    """What is plotted of a report.

    Attributes:
        name: The job's.
        phases: Seconds by phase, in the order of the bars.
        goodput: 0..1; None if unknown.
    """

    name: str
    phases: Mapping[str, float]
    goodput: float | None


def read_report(path: Path) -> Report:
    """Read the JSON of `imagenetctl report`.

    Raises:
        InputError: The file cannot be read, or is something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        phases = {str(name): float(seconds) for name, seconds in found["phases"].items()}
        goodput = found["goodput"]
        return Report(str(found["name"]), phases, None if goodput is None else float(goodput))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is not the output of imagenetctl report --output json"
        ) from error


def draw_time(report: Report, title: str) -> Figure:
    """Draw where the time went: one bar for each phase."""
    figure = _figure(10, 1.2 + 0.4 * max(1, len(report.phases)))
    axes = figure.subplots()
    whole = sum(report.phases.values())
    # Kept progress, lost time, all else.
    colours = {TimePhase.STEPPING.value: GREEN, **dict.fromkeys(_LOST_PHASES, VERMILION)}
    bars = axes.barh(
        list(report.phases),
        list(report.phases.values()),
        color=[colours.get(phase, BLUE) for phase in report.phases],
    )
    shares = [f" {seconds / whole:.1%}" for seconds in report.phases.values()]
    axes.bar_label(bars, labels=shares, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("seconds")
    _separate_thousands(axes.xaxis)
    _style(axes)
    axes.grid(visible=False)
    said = "" if report.goodput is None else f": goodput {report.goodput:.1%}"
    _entitle(figure, f"{title}{said}")
    return figure
