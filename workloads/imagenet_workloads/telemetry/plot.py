"""The pictures of `imagenet-plot`: a training by epoch, a sweep, and the time of a job.

They are drawn from the runs of `events`, the CSV table of `imagenetctl scale` (another program may
write the same columns), and the JSON of `imagenetctl report` and `imagenetctl compare`. No display
is needed.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
    StrMethodFormatter,
)

from imagenet_spec import curves
from imagenet_spec.curves import Epoch, Interval
from imagenet_spec.events import Run, Validated
from imagenet_spec.metrics import TimePhase
from imagenet_workloads.errors import InputError

# Okabe and Ito's palette for colour-blind readers.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, "#E69F00", "#56B4E9", "#000000")
QUIET_COLOUR = "#6b7280"

WORKERS = "workers"
GPUS = "GPUs"
ON_CPUS = "workers on CPUs, a stand-in for GPUs"
COLUMNS = ("strategy", "workers", "images_per_second", "speedup")
# The second strategy of a colour is dashed; the markers are for black and white.
_MARKS = "osD^vPX*"
_DASHES = ("-", "--", "-.", ":")
# The line of a restart, and the bar of what was lost.
_RESTART: dict[str, Any] = {
    "color": QUIET_COLOUR,
    "linestyle": (0, (4, 3)),
    "linewidth": 1,
    "zorder": 1,
}
_LOST_BAR: dict[str, Any] = {
    "facecolor": "white",
    "edgecolor": QUIET_COLOUR,
    "linestyle": ":",
    "linewidth": 1,
}
# Attempts with a number each, at most.
_MOST_ATTEMPTS = 8
# With fewer epochs, what happened within them says more.
_FEW_EPOCHS = 3
# From this ratio of largest to smallest loss on, the axis is logarithmic.
_MAGNITUDES = 20
# Lines between two numbers, at most.
_MOST_LINES = 4
# From this ratio of largest to smallest number on, the axis is logarithmic.
_WIDE = 8

_LOST_PHASES = (TimePhase.REDONE.value, "restarting", "unreported")

# A place and a value.
Point = tuple[float, float]


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _style(axes: Axes) -> None:
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9ca3af")
    axes.tick_params(colors="#374151", labelsize=9)


def _separate_thousands(axis: Axis) -> None:
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _entitle(figure: Figure, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")


def draw_training(runs: Sequence[Run], title: str) -> Figure:
    """Draw loss, accuracy, learning rate and speed by epoch, over all attempts.

    There is at least one run, and they are in the order of time. What a later attempt trained again
    is drawn apart from what was kept. `savefig` writes the figure.
    """
    epochs, kept = curves.all_epochs(runs), curves.kept_until(runs)
    strip = [0.3 + 0.2 * min(len(runs), _MOST_ATTEMPTS)] if runs[1:] else []
    figure = _figure(9, 8.4 + sum(strip))
    panels = figure.subplots(
        len(strip) + 4, 1, sharex=True, height_ratios=[*strip, 2.4, 2.4, 1.2, 1.2]
    )
    loss, accuracy, rate, speed = panels[-4:]
    if strip:
        _draw_attempts(panels[0], runs)
    _draw_means(loss, runs, kept, lambda item: item.loss)
    _draw_means(accuracy, runs, kept, lambda item: item.top1)
    _draw_rate_and_speed(rate, speed, runs, kept)
    loss.set_ylabel("loss (nats)")
    checked = [epoch.validation.loss for epoch in epochs if epoch.validation is not None]
    _spread(loss, [*checked, *(epoch.loss for epoch in epochs)])
    accuracy.set_ylabel("top-1 accuracy")
    accuracy.set_ylim(0, 1.03)
    accuracy.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    rate.set_ylabel("learning rate")
    speed.set_ylabel("images/s")
    _separate_thousands(speed.yaxis)
    for axes in (rate, speed):
        axes.set_ylim(0, 1.1 * max(axes.dataLim.y1, 0) or 1)
    ends = curves.last_positions(runs)
    first = min(curves.first_position(run) for run in runs)
    last = max(*ends, first + 1e-3)
    speed.set_xlim(first, last + 0.01 * (last - first))
    ticks = MaxNLocator(nbins=10, steps=[1, 2, 5, 10], integer=last - first >= 3)
    speed.xaxis.set_major_locator(ticks)
    speed.xaxis.set_major_formatter(FuncFormatter(_epoch_and_time(runs, kept)))
    speed.set_xlabel("finished epochs, and the time since the start")
    for axes in panels:
        _style(axes)
        for run in runs[1:]:
            axes.axvline(curves.first_position(run), **_RESTART)
    # Outside of the panels, where it hides no point.
    handles, labels = accuracy.get_legend_handles_labels()
    if runs[1:]:
        handles.append(Line2D([], [], **_RESTART))
        labels.append("restart")
    if any(end > until for end, until in zip(ends, kept, strict=True)):
        again = Line2D([], [], color=QUIET_COLOUR, linestyle=":")
        handles.append(again)
        labels.append("lost, trained again")
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9
        )
    figure.align_ylabels()
    _entitle(figure, title)
    panels[0].set_title(_summary(runs, epochs), loc="left", fontsize=10, color=QUIET_COLOUR)
    return figure


def _draw_attempts(axes: Axes, runs: Sequence[Run]) -> None:
    """Draw a bar for each attempt: the epochs that were kept, and those that were lost."""
    ends = zip(runs, curves.last_positions(runs), curves.kept_until(runs), strict=True)
    for row, (run, last, kept) in enumerate(ends):
        first = curves.first_position(run)
        middle = min(max(first, kept), last)
        axes.barh(row, middle - first, left=first, height=0.7, color=BLUE, linewidth=0)
        if last > middle:
            axes.barh(row, last - middle, left=middle, height=0.7, **_LOST_BAR)
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.set_ylabel("attempt")
    if len(runs) <= _MOST_ATTEMPTS:
        axes.set_yticks(range(len(runs)), [str(run.start[1].attempt) for run in runs])
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def _draw_means(
    axes: Axes,
    runs: Sequence[Run],
    kept: Sequence[float],
    value: Callable[[Epoch | Interval | Validated], float | None],
) -> None:
    """Draw a figure of the training images and of the validation images."""
    epochs = curves.all_epochs(runs)
    is_short = len(epochs) < _FEW_EPOCHS
    look: dict[str, Any] = {"color": BLUE, "linewidth": 0.8, "alpha": 0.9 if is_short else 0.35}
    label: str | None = "training, display intervals"
    for run, end in zip(runs, kept, strict=True):
        within = [item for item in curves.intervals(run) if item.end <= end]
        points = [(item.end, value(item)) for item in within]
        if _line(axes, points, label, **look):
            label = None
    marks = {"linewidth": 1.8, "marker": "o" if len(epochs) <= 60 else None, "markersize": 4}
    of_epoch: dict[str, tuple[str, Callable[[Epoch], float | None]]] = {
        "training": (BLUE, value),
        "validation": (
            VERMILION,
            lambda epoch: None if epoch.validation is None else value(epoch.validation),
        ),
    }
    for name, (color, figure) in of_epoch.items():
        points = [(epoch.number, figure(epoch)) for epoch in epochs if epoch.is_kept]
        _line(axes, points, name, color=color, **marks)
        for run, end in zip(runs, kept, strict=True):
            # It leaves the line of what was kept.
            last = [epoch for epoch in curves.epochs_of(run) if epoch.number > end - 1]
            points = [(epoch.number, figure(epoch)) for epoch in last]
            if any(place > end and found is not None for place, found in points):
                _line(axes, points, None, color=color, linestyle=":", linewidth=1.2)


def _draw_rate_and_speed(
    rate: Axes, speed: Axes, runs: Sequence[Run], kept: Sequence[float]
) -> None:
    is_short = len(curves.all_epochs(runs)) < _FEW_EPOCHS
    for run, end in zip(runs, kept, strict=True):
        within = [item for item in curves.intervals(run) if item.end <= end]
        # An interval has the rate of its last step.
        rates = [(item.end, item.learning_rate) for item in within]
        begin = [(curves.first_position(run), rates[0][1])] if rates else []
        _line(rate, [*begin, *rates], None, color=PURPLE, drawstyle="steps-pre")
        steps: list[Point] = []
        lost: list[Point] = []
        edge = curves.first_position(run)
        for epoch in curves.epochs_of(run):
            if epoch.images_per_second is not None:
                ends = [(edge, epoch.images_per_second), (epoch.number, epoch.images_per_second)]
                (steps if epoch.number <= end else lost).extend(ends)
                edge = epoch.number
        _line(speed, steps, None, color=GREEN, linewidth=1.8)
        _line(speed, lost, None, color=GREEN, linewidth=1.2, linestyle=":")
        if is_short:
            points = [(item.end, item.images_per_second) for item in within]
            _line(speed, points, None, color=GREEN, linewidth=0.8, alpha=0.9)


def _line(
    axes: Axes, points: Sequence[tuple[float, float | None]], label: str | None, **look: Any
) -> bool:
    """Draw the points with a value; return whether there is one."""
    known = [(place, value) for place, value in points if value is not None]
    if known:
        places, values = zip(*known, strict=True)
        axes.plot(places, values, label=label or "_", **look)
    return bool(known)


def _spread(axes: Axes, values: Sequence[float | None]) -> None:
    """Make the axis logarithmic if the values are of several magnitudes."""
    known = [value for value in values if value is not None]
    if known and min(known) > 0 and max(known) / min(known) > _MAGNITUDES:
        axes.set_yscale("log", nonpositive="mask")


def _epoch_and_time(
    runs: Sequence[Run], kept: Sequence[float]
) -> Callable[[float, int | None], str]:
    """A formatter of ticks: the epochs, and below them the time at which they were done."""
    start = runs[0].start[0]
    size, unit = _unit(runs[-1].end - start)
    reached = [(curves.first_position(runs[0]), 0.0)]
    for run, end in zip(runs, kept, strict=True):
        places = (curves.position(run, event.epoch, event.batch) for _, event in run.progress)
        times = (time - start for time, _ in run.progress)
        reached += [found for found in zip(places, times, strict=True) if found[0] <= end]
    places_of, times_of = zip(*sorted(reached), strict=True)

    def text(place: float, _: int | None) -> str:
        if not places_of[0] <= place <= places_of[-1]:
            return f"{place:.10g}"
        seconds = float(np.interp(place, places_of, times_of))
        return f"{place:.10g}\n{seconds / size:.3g} {unit}"

    return text


def _unit(seconds: float) -> tuple[float, str]:
    """The largest unit of time that occurs twice: its seconds and name."""
    units = (86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")
    return next((unit for unit in units if seconds >= 2 * unit[0]), units[-1])


def _summary(runs: Sequence[Run], epochs: Sequence[Epoch]) -> str:
    finished = {epoch.number for epoch in epochs if epoch.is_kept}
    seconds = runs[-1].end - runs[0].start[0]
    size, unit = _unit(seconds)
    plural = "" if len(finished) == 1 else "s"
    parts = [f"{len(finished)} epoch{plural} in {seconds / size:.3g} {unit}"]
    if runs[1:]:
        parts.append(f"{len(runs)} attempts")
    checked = [(epoch.validation.top1, -epoch.number) for epoch in epochs if epoch.validation]
    if checked:
        top1, number = max(checked)
        parts.append(f"best validation top-1 {top1:.2%} at epoch {-number}")
    return ", ".join(parts)


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep: the speed of all workers, and the speedup over one.

    `number` is of workers, or of GPUs, as `unit` says; a sweep has one unit.
    """

    number: int
    images_per_second: float
    speedup: float
    unit: str = WORKERS


def read_points(path: Path) -> dict[str, list[SweepPoint]]:
    """Return the points of each series by their number, without those that have no speed.

    A series is a strategy, or a network with one. InputError if the file is not such a table, or
    has no point.
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
    """What is plotted of a report: seconds by phase, in the order of the bars, and goodput."""

    name: str
    phases: Mapping[str, float]
    goodput: float | None


def read_report(path: Path) -> Report:
    """Read the JSON of `imagenetctl report`; InputError if it cannot be read, or is not it."""
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


@dataclass(frozen=True)
class ComparedEpoch:
    """An epoch of a compared training, and what it had cost; None is unknown."""

    images: int
    seconds: float
    gpu_hours: float | None
    top1: float | None
    loss: float | None


@dataclass(frozen=True)
class Comparison:
    """What is plotted of a comparison.

    Attributes:
        jobs: name of a job → its epochs, in order.
        losses: whose loss it is: that of validation images, or of training images if one of the
            jobs has no other.
        reached: the validation accuracy whose costs are compared, 0..1; None if there is none.
    """

    jobs: Mapping[str, Sequence[ComparedEpoch]]
    losses: str
    reached: float | None


def read_comparison(path: Path) -> Comparison:
    """Read the JSON of `imagenetctl compare`.

    InputError if the file cannot be read, is something else, or has no epoch.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        reached = found["reached"]
        curves_of = {str(job["name"]): job["curve"] for job in found["jobs"]}
        is_checked = all(
            any(epoch["validation"] and epoch["validation"]["loss"] is not None for epoch in curve)
            for curve in curves_of.values()
        )
        jobs = {
            name: [
                ComparedEpoch(
                    int(epoch["images"]),
                    float(epoch["seconds"]),
                    None if epoch["gpuHours"] is None else float(epoch["gpuHours"]),
                    (epoch["validation"] or {}).get("top1"),
                    (epoch["validation"] or {}).get("loss") if is_checked else epoch["loss"],
                )
                for epoch in curve
            ]
            for name, curve in curves_of.items()
        }
        top1 = None if reached is None else float(reached["top1"])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is not the output of imagenetctl compare --output json"
        ) from error
    if not any(jobs.values()):
        raise InputError(f"{path}: has no finished epoch, so there is nothing to plot")
    return Comparison(jobs, "validation" if is_checked else "training", top1)


def draw_comparison(comparison: Comparison, title: str) -> Figure:
    """Draw accuracy and loss by images and time, and by GPU-hours if a job used GPUs."""
    epochs = [epoch for job in comparison.jobs.values() for epoch in job]
    size, unit = _unit(max(epoch.seconds for epoch in epochs))
    costs: dict[str, Callable[[ComparedEpoch], float | None]] = {
        "trained images": lambda epoch: epoch.images,
        f"time ({unit})": lambda epoch: epoch.seconds / size,
    }
    if any(epoch.gpu_hours for epoch in epochs):
        costs["GPU-hours"] = lambda epoch: epoch.gpu_hours
    figure = _figure(1 + 4 * len(costs), 7)
    panels = figure.subplots(2, len(costs), sharex="col", sharey="row")
    marked = max(map(len, comparison.jobs.values())) <= 60
    for column, (name, cost) in enumerate(costs.items()):
        accuracy, loss = panels[0][column], panels[1][column]
        for number, (job, points) in enumerate(comparison.jobs.items()):
            look: dict[str, Any] = {
                "color": PALETTE[number % len(PALETTE)],
                "linestyle": _DASHES[number // len(PALETTE) % len(_DASHES)],
                "marker": _MARKS[number % len(_MARKS)] if marked else None,
                "markersize": 4,
                "linewidth": 1.8,
            }
            known = [(place, epoch) for epoch in points if (place := cost(epoch)) is not None]
            _line(accuracy, [(place, epoch.top1) for place, epoch in known], job, **look)
            _line(loss, [(place, epoch.loss) for place, epoch in known], job, **look)
        if comparison.reached is not None:
            accuracy.axhline(comparison.reached, **_RESTART)
        loss.set_xlabel(name)
        loss.set_xlim(left=0)
        loss.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        _separate_thousands(loss.xaxis)
        for axes in (accuracy, loss):
            _style(axes)
    panels[1][0].xaxis.set_major_formatter(EngFormatter(sep=""))
    panels[0][0].set_ylabel("validation top-1 accuracy")
    panels[0][0].yaxis.set_major_formatter(PercentFormatter(1.0))
    panels[1][0].set_ylabel(f"{comparison.losses} loss (nats)")
    _spread(panels[1][0], [epoch.loss for epoch in epochs])
    handles, labels = panels[1][0].get_legend_handles_labels()
    if comparison.reached is not None:
        handles.append(Line2D([], [], **_RESTART))
        labels.append(f"top-1 {comparison.reached:.2%}")
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    _entitle(figure, title)
    return figure
