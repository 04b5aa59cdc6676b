"""Plots where the time of a job went: one bar for each phase.

The plot of `imagenet-plot --time`, with the JSON of `imagenetctl report`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from imagenet_spec.metrics import TimePhase
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.plot import style

# From Okabe and Ito's palette: kept progress, lost time, all else.
_KEPT, _LOST, _OTHER = "#009E73", "#D55E00", "#0072B2"
_LOST_PHASES = (TimePhase.REDONE.value, "restarting", "unreported")


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
    """Draw the figure; `savefig` writes it."""
    figure = Figure(figsize=(10, 1.2 + 0.4 * max(1, len(report.phases))), dpi=150)
    figure.set_layout_engine("constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    whole = sum(report.phases.values())
    bars = axes.barh(
        list(report.phases),
        list(report.phases.values()),
        color=[_colour(phase) for phase in report.phases],
    )
    shares = [f" {seconds / whole:.1%}" for seconds in report.phases.values()]
    axes.bar_label(bars, labels=shares, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("seconds")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    style(axes, legend=False)
    axes.grid(visible=False)
    said = "" if report.goodput is None else f": goodput {report.goodput:.1%}"
    figure.suptitle(f"{title}{said}", x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _colour(phase: str) -> str:
    if phase == TimePhase.STEPPING.value:
        return _KEPT
    return _LOST if phase in _LOST_PHASES else _OTHER
