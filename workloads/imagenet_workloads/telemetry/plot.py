"""Plots a training's accuracy and speed over time, with restarts.

The plot of `imagenet-plot`, with the data of `history`. It needs no display.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from imagenet_workloads.telemetry.history import Run

# From Okabe and Ito's palette for colour-blind readers.
TRAINING_COLOUR = "#0072B2"
VALIDATION_COLOUR = "#D55E00"
SPEED_COLOUR = "#009E73"
QUIET_COLOUR = "#6b7280"

Point = tuple[float, float]
Clock = Callable[[float], float]


def draw(runs: Sequence[Run], title: str) -> Figure:
    """Draw the figure; `savefig` writes it.

    Args:
        runs: In the order of time, at least one.
        title: The title.
    """
    figure = Figure(figsize=(9, 6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
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
    speed.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    speed.set_xlabel(f"{unit} since the start")
    speed.set_xlim(0, max(clock(max(run.end for run in runs)), 1e-3) * 1.02)
    speed.xaxis.set_major_locator(MaxNLocator(nbins=10))
    for axes in (accuracy, speed):
        style(axes, legend=True)
        _mark_restarts(axes, runs, clock)
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
    _line(axes, so_far, label, color=TRAINING_COLOUR, linewidth=0.8, alpha=0.35)
    marks = {"linewidth": 1.8, "marker": "o" if marked else None, "markersize": 4}
    training = [(clock(time), event.top1) for time, event in run.epochs if event.top1 is not None]
    validation = [(clock(time), event.top1) for time, event in run.validations]
    for label, color, points in (
        ("training", TRAINING_COLOUR, training),
        ("validation", VALIDATION_COLOUR, validation),
    ):
        _line(axes, points, label if labelled else None, color=color, **marks)


def _draw_speed(axes: Axes, run: Run, clock: Clock, labelled: bool, alpha: float) -> None:
    # Only one worker writes the log; all are synchronous, so they have the same speed.
    workers = run.start[1].workers
    intervals = [(clock(time), event.images_per_second * workers) for time, event in run.progress]
    label = "display interval" if labelled else None
    _line(axes, intervals, label, color=SPEED_COLOUR, linewidth=0.8, alpha=alpha)
    label = "epoch" if labelled else None
    for time, event in run.epochs:
        span = [
            (clock(time - event.seconds), event.images_per_second),
            (clock(time), event.images_per_second),
        ]
        _line(axes, span, label, color=SPEED_COLOUR, linewidth=2.2, solid_capstyle="butt")
        label = None


def _line(axes: Axes, points: Sequence[Point], label: str | None, **style: Any) -> None:
    if points:
        times, values = zip(*points, strict=True)
        axes.plot(times, values, label=label or "_", **style)


def _mark_restarts(axes: Axes, runs: Sequence[Run], clock: Clock) -> None:
    for run in runs[1:]:
        axes.axvline(
            clock(run.start[0]), color=QUIET_COLOUR, linestyle=(0, (4, 3)), linewidth=1, zorder=1
        )


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
        color=VALIDATION_COLOUR,
    )


def style(axes: Axes, *, legend: bool) -> None:
    """Apply the common style, and add a legend at the lower right if there is anything to name."""
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9ca3af")
    axes.tick_params(colors="#374151", labelsize=9)
    handles, _ = axes.get_legend_handles_labels()
    if handles and legend:
        axes.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)
