"""What the events of a job's attempts say once: points by step, without lost steps.

Steps are images, over all workers: epochs times the training images, and those of the current
epoch. So a step is the same for every attempt, whatever its workers and batch size.

An attempt that resumes rewinds to its checkpoint: later points of earlier attempts are lost, and
come again. A point at or before the newest checkpoint is covered: no attempt trains it again,
unless that checkpoint is lost. At the end of the training, all points are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from imagenet_spec.events import (
    CheckpointWritten,
    Event,
    Finished,
    Progress,
    Started,
    Validated,
)

RESTARTS = "restarts"
"""The series of how often the training was restarted."""
GOODPUT = "goodput"
"""The series of the share of time that went to kept steps, since the first attempt started."""


@dataclass(frozen=True)
class Point:
    """One value of a series: its step in images trained so far, and its time since 1970."""

    series: str
    step: int
    value: float
    time: float


@dataclass(frozen=True)
class Restart:
    """A mark: an attempt, by its number from 1, goes on from a step.

    The text is the sentence of the log, the time in seconds since 1970.
    """

    number: int
    step: int
    text: str
    time: float


@dataclass
class History:
    """The events so far, in order.

    Attributes:
        points: Those that count, in the order of their events.
        restarts: In order.
        covered: Every point at or before this step is settled; infinite after the end.
        parameters: Of the first attempt, with the dataset's key.
        started: When the first attempt started, in seconds since 1970; None before.
        ended: When the training was complete, likewise.
    """

    points: list[Point] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    covered: float = -1
    parameters: Mapping[str, str] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    _run: Started | None = None
    _reached: int = 0
    # Seconds of the steps that count, each with the step at its end.
    _stepping: list[tuple[int, float]] = field(default_factory=list)
    _kept_seconds: float = 0.0
    _last: dict[str, int] = field(default_factory=dict)

    def add(self, time: float, event: Event) -> list[Point]:
        if isinstance(event, Started):
            return self._start(time, event)
        if self._run is None:
            return []
        if isinstance(event, Progress):
            return self._progress(time, event, self._run)
        if isinstance(event, Validated):
            figures = {"loss": event.loss, "top1": event.top1, "top5": event.top5}
            step = self._step(event.epoch + 1, 0, self._run)
            return self._keep(step, time, {f"validation/{key}": v for key, v in figures.items()})
        if isinstance(event, CheckpointWritten):
            self.covered = max(self.covered, self._step(event.epoch, event.batch, self._run))
        elif isinstance(event, Finished):
            self.covered, self.ended = math.inf, time
        return []

    def _start(self, time: float, event: Started) -> list[Point]:
        self._run, self.ended = event, None
        step = self._step(event.epoch, event.batch, event)
        self._reached = step
        if self.started is None:
            self.started = time
            key = {} if event.dataset_key is None else {"dataset_key": event.dataset_key}
            self.parameters = {**(event.parameters or {}), **key}
        else:
            self.restarts.append(Restart(len(self.restarts) + 1, step, event.sentence(), time))
            self.points = [point for point in self.points if point.step <= step]
            self._last = {point.series: point.step for point in self.points}
            self._stepping = [item for item in self._stepping if item[0] <= step]
            self._kept_seconds = sum(seconds for _, seconds in self._stepping)
        # What it resumes from is covered, even if the line of its checkpoint was lost.
        self.covered = step
        return []

    def _progress(self, time: float, event: Progress, run: Started) -> list[Point]:
        step = self._step(event.epoch, event.batch, run)
        speed = event.images_per_second * run.workers
        if step > self._reached and speed > 0:
            seconds = (step - self._reached) / speed if run.images_per_epoch else 0.0
            self._stepping.append((step, seconds))
            self._kept_seconds += seconds
        self._reached = max(self._reached, step)
        elapsed = time - (time if self.started is None else self.started)
        goodput = min(1.0, self._kept_seconds / elapsed) if elapsed > 0 else None
        return self._keep(
            step,
            time,
            {
                "train/loss": event.loss,
                "train/top1": event.top1,
                "train/top5": event.top5,
                "learning_rate": event.learning_rate,
                "images_per_second": speed,
                GOODPUT: goodput if run.images_per_epoch else None,
                RESTARTS: float(len(self.restarts)),
            },
        )

    def _keep(self, step: int, time: float, values: Mapping[str, float | None]) -> list[Point]:
        """Keep the values that are known, of series that have none at this step yet."""
        kept = [
            Point(series, step, value, time)
            for series, value in values.items()
            if value is not None and step > self._last.get(series, -1)
        ]
        self.points += kept
        self._last.update((point.series, point.step) for point in kept)
        return kept

    @staticmethod
    def _step(epoch: int, batch: int, run: Started) -> int:
        # A log of an older release has no images; batches then take their place.
        batches = run.batches_per_epoch or 1
        images = run.images_per_epoch or batches
        return epoch * images + min(batch, batches) * images // batches


def to_send(history: History, acknowledged: Mapping[str, int]) -> list[Point]:
    """Return the covered points that an append-only server lacks, in the order of their steps.

    `acknowledged` has the last step of each series that the server has.
    """
    return sorted(
        (
            point
            for point in history.points
            if point.step <= history.covered and point.step > acknowledged.get(point.series, -1)
        ),
        key=lambda point: point.step,
    )
