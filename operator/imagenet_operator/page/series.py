"""The series of the charts: what the runs of a job report, over four measures of its progress.

Over time, everything is drawn. Over the epochs, the trained images and the GPU-hours, what a
later attempt trained again is left out, because training went back there. Images and GPU-hours are
known at the end of an epoch, so only the series by epoch have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from imagenet_spec.curves import (
    Account,
    Epoch,
    all_epochs,
    curve,
    first_position,
    kept_until,
    position,
)
from imagenet_spec.events import Progress, Run
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.time_status import seconds_of

POINTS_MAXIMUM = 4000
"""Of a series; of more, evenly spaced ones are drawn."""

_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))

MEASURES = {
    "time": "{unit} since the start",
    "epochs": "epochs",
    "images": "trained images",
    "gpuHours": "GPU-hours",
}

Place = tuple[float, float | None, int | None, float | None]
"""Time since the start, finished epochs, trained images, GPU-hours; None if unknown."""


JobColour = Literal["job1", "job2", "job3", "job4", "job5", "job6", "job7", "job8"]
Colour = Literal["validation", "validation5", "training", "within"] | JobColour
"""Of a line, as page.css has it; `within` are points within an epoch."""


@dataclass(frozen=True)
class Point:
    """A value at a place; `is_kept` says that no later run trained from before it."""

    place: Place
    is_kept: bool
    value: float


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    label: str
    points: Sequence[Point]
    colour: Colour


@dataclass(frozen=True)
class Chart:
    """Lines with one unit: `share` is a fraction of 1, other units are words."""

    name: str
    title: str
    unit: str
    series: Sequence[Series]

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "series": [
                {
                    "label": series.label,
                    "colour": series.colour,
                    "points": [
                        [*point.place, int(point.is_kept), point.value] for point in series.points
                    ],
                }
                for series in self.series
            ],
        }


def account_of(job: ImageNetJob) -> Account | None:
    """Return the account of a job's time as numbers; None if its status has none."""
    time, created = job.status.time, job.metadata.creation_timestamp
    if time is None or created is None or time.counted_until is None:
        return None
    return Account(
        created.timestamp(),
        time.counted_until.timestamp(),
        seconds_of(time.phases),
        time.gpu_hours or 0.0,
    )


def duration(runs: Sequence[Run]) -> float:
    """Return the seconds from the start of the first run to the end of the last one."""
    return max((run.end for run in runs), default=0.0) - runs[0].start[0] if runs else 0.0


class Curves:
    """The series of a job's runs, which are in the order of time.

    Without an account of the job's time, GPU-hours are unknown. The unit of time is the largest one
    of which the runs took three; `seconds` replaces what they took.
    """

    def __init__(
        self, runs: Sequence[Run], account: Account | None, seconds: float | None = None
    ) -> None:
        self.runs = runs
        self._start = runs[0].start[0] if runs else 0.0
        seconds = duration(runs) if seconds is None else seconds
        self._unit_seconds, self.unit = next(
            (size, name) for size, name in _UNITS if seconds >= 3 * size or size == 1
        )
        self.epochs = all_epochs(runs)
        self._kept_until = kept_until(runs)
        found = curve(runs, account)
        self._costs = {
            point.epoch.number: (point.images, point.gpu_hours) for point in found.points
        }

    @property
    def measures(self) -> dict[str, str]:
        has_gpus = any(gpu_hours for _, gpu_hours in self._costs.values())
        absent = {"images": not self._costs, "gpuHours": not has_gpus}
        return {
            name: label.format(unit=self.unit)
            for name, label in MEASURES.items()
            if not absent.get(name)
        }

    def since_start(self, time: float) -> float:
        return (time - self._start) / self._unit_seconds

    def charts(self) -> list[Chart]:
        charts = (
            Chart(
                "accuracy",
                "Accuracy",
                "share",
                (
                    self._by_epoch(
                        "validation, top-1", "validation", lambda one: of_validation(one, "top1")
                    ),
                    self._by_epoch(
                        "validation, top-5", "validation5", lambda one: of_validation(one, "top5")
                    ),
                    self._by_epoch("training, top-1", "training", lambda one: one.top1),
                    self._within("training, top-1 within the epoch", lambda one, _: one.top1),
                ),
            ),
            Chart(
                "loss",
                "Loss",
                "nats",
                (
                    self._by_epoch(
                        "validation", "validation", lambda one: of_validation(one, "loss")
                    ),
                    self._by_epoch("training", "training", lambda one: one.loss),
                    self._within("training, within the epoch", lambda one, _: one.loss),
                ),
            ),
            Chart(
                "speed",
                "Speed",
                "images/s",
                (
                    self._by_epoch("epoch", "training", lambda one: one.images_per_second),
                    # Rank 0 alone writes the log; the workers are synchronous.
                    self._within(
                        "display interval", lambda one, workers: one.images_per_second * workers
                    ),
                ),
            ),
        )
        drawn = (
            Chart(one.name, one.title, one.unit, [line for line in one.series if line.points])
            for one in charts
        )
        return [chart for chart in drawn if chart.series]

    def document(self) -> dict[str, Any]:
        """Return what page.js draws.

        A point is [time, epochs, images, GPU-hours, 1 if it is kept, value], a restart
        [time, epochs]. `columns` name the first four.
        """
        return {
            "columns": list(MEASURES),
            "measures": self.measures,
            "restarts": [
                [round(self.since_start(run.start[0]), 6), round(first_position(run), 6)]
                for run in self.runs[1:]
            ],
            "charts": [chart.document() for chart in self.charts()],
        }

    def _by_epoch(
        self, label: str, colour: Colour, value: Callable[[Epoch], float | None]
    ) -> Series:
        points = []
        for epoch in self.epochs:
            costs = self._costs.get(epoch.number) if epoch.is_kept else None
            images, gpu_hours = costs or (None, None)
            place = self._place(epoch.time, epoch.number, images, gpu_hours)
            points.append((place, epoch.is_kept, value(epoch)))
        return Series(label, _finite(points), colour)

    def _within(self, label: str, value: Callable[[Progress, int], float | None]) -> Series:
        points = []
        for run, kept in zip(self.runs, self._kept_until, strict=True):
            for time, event in run.progress:
                at = position(run, event.epoch, event.batch)
                found = value(event, run.start[1].workers)
                points.append((self._place(time, at, None, None), at <= kept, found))
        return Series(label, _finite(points), "within")

    def _place(
        self, time: float, epochs: float, images: int | None, gpu_hours: float | None
    ) -> Place:
        spent = None if gpu_hours is None else round(gpu_hours, 6)
        return round(self.since_start(time), 6), round(epochs, 6), images, spent


def of_validation(epoch: Epoch, name: Literal["top1", "top5", "loss"]) -> float | None:
    """Return a figure of an epoch's validation; None without one."""
    found: float | None = getattr(epoch.validation, name, None)
    return found


def _finite(points: Sequence[tuple[Place, bool, float | None]]) -> list[Point]:
    found = [
        Point(place, is_kept, value)
        for place, is_kept, value in points
        if value is not None and isfinite(value) and isfinite(place[0])
    ]
    if len(found) <= POINTS_MAXIMUM:
        return found
    step = (len(found) - 1) / (POINTS_MAXIMUM - 1)
    return [found[round(place * step)] for place in range(POINTS_MAXIMUM)]
