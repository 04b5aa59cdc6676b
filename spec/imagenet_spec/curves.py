"""The epochs of a training over all its attempts, and what it cost to reach them.

`events` reads the logs. The screen, plots, pages and tables take epochs and costs from here, so
all of them count a restart in the same way. Steps that a later attempt trained again are part of
the costs, and no part of the curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from imagenet_spec.events import (
    EpochFinished,
    Event,
    Finished,
    Progress,
    Run,
    Started,
    Validated,
)

WAITING_PHASES = ("queued", "queueing", "fetching", "preparing", "suspended")
"""Phases of `status.time` that are no part of a training: they hold no GPUs, and depend on the
cluster and on whether the dataset was there."""

IDLE_PHASES = ("restarting",)
"""Phases of a training that hold no GPUs."""


@dataclass(frozen=True)
class Epoch:
    """A finished epoch of an attempt.

    Attributes:
        number: From 1.
        time: When it was complete, with its validation; seconds since 1970.
        loss: The mean over its training images, in nats. The training figures are None if only its
            validation ran in this attempt.
        top1: accuracy over the same, 0..1; top5 likewise.
        learning_rate: of its last step.
        images: The training images of this attempt in the epoch.
        images_per_second: summed over the workers.
        validation: None without validation images, or if the attempt ended before.
        is_kept: Whether no later attempt began before its end.
    """

    attempt: int
    number: int
    time: float
    loss: float | None = None
    top1: float | None = None
    top5: float | None = None
    learning_rate: float | None = None
    images: int = 0
    images_per_second: float | None = None
    validation: Validated | None = None
    is_kept: bool = True


class EpochCollector:
    """Joins the events of a log into epochs, while the log grows or afterwards.

    An epoch is complete with its validation. Without validation images, it is complete with the
    next event of the training.
    """

    def __init__(self) -> None:
        self._attempt = 0
        self._rate: tuple[int, float | None] = (0, None)
        self._pending: Epoch | None = None

    def add(self, time: float, event: Event) -> list[Epoch]:
        """Add the next event; return the epochs that it completes."""
        if isinstance(event, Validated):
            number = event.epoch + 1
            if self._pending is None or self._pending.number != number:
                return [*self.end(), Epoch(self._attempt, number, time, validation=event)]
            self._pending = replace(self._pending, time=time, validation=event)
            return self.end()
        if not isinstance(event, Started | Progress | EpochFinished | Finished):
            return []
        complete = self.end()
        if isinstance(event, Started):
            self._attempt = event.attempt
        elif isinstance(event, Progress):
            self._rate = event.epoch, event.learning_rate
        elif isinstance(event, EpochFinished):
            self._pending = Epoch(
                self._attempt,
                event.epoch + 1,
                time,
                event.loss,
                event.top1,
                event.top5,
                self._rate[1] if self._rate[0] == event.epoch else None,
                round(event.images_per_second * event.seconds),
                event.images_per_second,
            )
        return complete

    def end(self) -> list[Epoch]:
        """Return the epoch that still waits for its validation, at the end of a log."""
        pending, self._pending = self._pending, None
        return [] if pending is None else [pending]


def epochs_of(run: Run) -> list[Epoch]:
    """Return the epochs of one run, as if all of them were kept."""
    events: list[tuple[float, Event]] = [*run.progress, *run.epochs, *run.validations]
    collector = EpochCollector()
    found = collector.add(*run.start)
    for time, event in sorted(events, key=lambda item: item[0]):
        found += collector.add(time, event)
    return found + collector.end()


def batches_per_epoch(run: Run) -> int:
    """Return the batches of an epoch; of an old log, the most that it names."""
    return run.start[1].batches_per_epoch or max(
        (event.batch for _, event in run.progress), default=1
    )


def position(run: Run, epoch: int, batch: int) -> float:
    """Return the finished epochs of a training with their fraction; `epoch` is from 0."""
    return epoch + batch / batches_per_epoch(run)


def first_position(run: Run) -> float:
    """Return the finished epochs with their fraction at the start of a run."""
    return position(run, run.start[1].epoch, run.start[1].batch)


def last_positions(runs: Sequence[Run]) -> list[float]:
    """Return how far each run came, as finished epochs with their fraction.

    A log may end before the last steps. What the next run resumes from was trained.
    """
    found = []
    for run, resumed_from in zip(runs, [*map(first_position, runs[1:]), 0.0], strict=True):
        reached = (position(run, event.epoch, event.batch) for _, event in run.progress)
        finished = (event.epoch + 1.0 for _, event in run.epochs)
        found.append(max(first_position(run), *reached, *finished, resumed_from))
    return found


@dataclass(frozen=True)
class Interval:
    """A display interval.

    Attributes:
        end: The finished epochs at its end, with their fraction.
        loss: The mean over its training images, in nats.
        top1: accuracy over the same, 0..1.
        images_per_second: summed over the workers.
    """

    end: float
    loss: float | None
    top1: float | None
    learning_rate: float | None
    images_per_second: float


def intervals(run: Run) -> list[Interval]:
    """Return the display intervals of a run.

    The log has means over the epoch so far: m(b) after b batches. The mean over an interval from
    batch a to b is (b·m(b) - a·m(a)) / (b - a).
    """
    found = []
    started = run.start[1]
    former: Progress | None = None
    for _, event in run.progress:
        if former is not None and former.epoch != event.epoch:
            former = None
        # A run that resumes within an epoch counts from there.
        begin = started.batch if event.epoch == started.epoch else 0
        done = event.batch - begin
        before = 0 if former is None else former.batch - begin
        means: dict[str, float | None] = {}
        for name in ("loss", "top1"):
            now, past = getattr(event, name), 0.0 if former is None else getattr(former, name)
            is_known = now is not None and past is not None and done > before
            means[name] = (done * now - before * past) / (done - before) if is_known else None
        found.append(
            Interval(
                position(run, event.epoch, event.batch),
                means["loss"],
                means["top1"],
                event.learning_rate,
                # Only one worker writes the log; all are synchronous, so they have the same speed.
                event.images_per_second * started.workers,
            )
        )
        former = event
    return found


def kept_until(runs: Sequence[Run]) -> list[float]:
    """Return for each run the finished epochs, with their fraction, that no later run trains again.

    It is infinite for the last run. The runs are in the order of time.
    """
    starts = [first_position(run) for run in runs]
    return [min(starts[number + 1 :], default=math.inf) for number in range(len(runs))]


def all_epochs(runs: Sequence[Run]) -> list[Epoch]:
    """Return the epochs of all runs in the order of time."""
    return [
        replace(epoch, is_kept=epoch.number <= kept)
        for run, kept in zip(runs, kept_until(runs), strict=True)
        for epoch in epochs_of(run)
    ]


@dataclass(frozen=True)
class Account:
    """The account of a job's time, `status.time`, from its creation on; in seconds since 1970.

    Attributes:
        phases: Seconds by phase.
        gpu_hours: The hours in which members had nodes, times their GPUs.
    """

    begin: float
    end: float
    phases: Mapping[str, float]
    gpu_hours: float

    @property
    def seconds(self) -> float:
        """The time of the training: from the first pods on, with restarts, without waits."""
        return sum(spent for name, spent in self.phases.items() if name not in WAITING_PHASES)

    @property
    def held_seconds(self) -> float:
        """The part of it in which members had nodes."""
        return self.seconds - sum(self.phases.get(name, 0.0) for name in IDLE_PHASES)


@dataclass(frozen=True)
class Point:
    """A kept epoch, and what the training had cost at its end, over all attempts.

    Attributes:
        epoch: Its attempt is the one that trained it; a later one may have validated it.
        images: The trained images, those of lost steps included.
        seconds: The time of the training, restarts and lost steps included.
        gpu_hours: likewise; None if the job's account of time is unknown.
    """

    epoch: Epoch
    images: int
    seconds: float
    gpu_hours: float | None


@dataclass(frozen=True)
class Curve:
    """The kept epochs of a training, and its costs as a whole.

    Attributes:
        images: The trained images, those of lost steps included.
        lost_images: Those that a later attempt trained again.
        seconds: The time of the training, restarts and lost steps included.
        gpu_hours: likewise; None if the job's account of time is unknown.
    """

    points: tuple[Point, ...]
    images: int
    lost_images: int
    seconds: float
    gpu_hours: float | None

    @property
    def best(self) -> Point | None:
        """The first point with the highest validation accuracy; None without any."""
        validated = [point for point in self.points if point.epoch.validation is not None]
        return max(validated, key=_top1, default=None)

    def reached(self, top1: float) -> Point | None:
        """Return the first point with at least this validation accuracy, 0..1."""
        return next((point for point in self.points if _top1(point) >= top1), None)


def curve(runs: Sequence[Run], account: Account | None = None) -> Curve:
    """Return the curve of a training from its runs, in the order of time.

    The log has the time within a run alone. The account has the sum of the rest: start of pods,
    back-off, hangs. This sum is shared out between the gaps: each gap counts as it is, and if the
    job was queued or suspended, the longest gaps count as one length. Without an account, the gaps
    count as they are, from the first run on.
    """
    total = None if account is None else account.gpu_hours
    if not runs:
        return Curve((), 0, 0, 0.0 if account is None else account.seconds, total)
    within = [run.end - run.start[0] for run in runs]
    # Before each run, and after the last one.
    gaps = [max(0.0, after.start[0] - before.end) for before, after in pairwise(runs)]
    counted = held = [0.0, *gaps, 0.0]
    if account is not None:
        prepared = sum(account.phases.get(name, 0.0) for name in ("fetching", "preparing"))
        before = max(0.0, runs[0].start[0] - account.begin - prepared)
        gaps = [before, *gaps, max(0.0, account.end - runs[-1].end)]
        # Of a running job, the log may be ahead of the account.
        known = sum(within) - max(0.0, runs[-1].end - max(account.end, runs[-1].start[0]))
        counted = _levelled(gaps, account.seconds - known)
        held = _levelled(gaps, account.held_seconds - known)
    workers = [run.start[1].workers for run in runs]
    worker_seconds = workers[-1] * held[-1] + sum(
        size * (gap + spent) for size, gap, spent in zip(workers, held[:-1], within, strict=True)
    )
    per_epoch = _images_per_epoch(runs)
    points: list[Point] = []
    images = lost = 0
    seconds = spent = 0.0
    lasts = last_positions(runs)
    for number, (run, kept) in enumerate(zip(runs, kept_until(runs), strict=True)):
        seconds += counted[number]
        spent += workers[number] * held[number]
        for epoch in epochs_of(run):
            images += epoch.images
            if epoch.number <= kept:
                into = epoch.time - run.start[0]
                share = (spent + workers[number] * into) / max(worker_seconds, 1e-9)
                gpu_hours = None if total is None else total * min(1.0, share)
                point = Point(epoch, images, seconds + into, gpu_hours)
                # An attempt begins with the validation that the one before it had not ended.
                if points and (trained := points[-1].epoch).number == epoch.number:
                    if trained.validation is None:
                        validated = replace(trained, time=epoch.time, validation=epoch.validation)
                        points[-1] = replace(point, epoch=validated)
                else:
                    points.append(point)
        seconds += within[number]
        spent += workers[number] * within[number]
        first, last = first_position(run), lasts[number]
        # A run that is told to leave in an epoch's last step says nothing of its end.
        counted_to = max((event.epoch + 1.0 for _, event in run.epochs), default=first)
        images += round((last - max(first, counted_to)) * per_epoch)
        lost += round(max(0.0, last - max(kept, first)) * per_epoch)
    return Curve(tuple(points), images, lost, seconds + counted[-1], total)


def common_accuracy(curves: Iterable[Curve]) -> float | None:
    """Return the highest validation accuracy that all reached, cut to four digits.

    None if one of them has no validation.
    """
    best = [found.best for found in curves]
    if not best or None in best:
        return None
    return math.floor(min(_top1(point) for point in best if point is not None) * 1e4) / 1e4


def _top1(point: Point) -> float:
    validation = point.epoch.validation
    return -1.0 if validation is None else validation.top1


def _images_per_epoch(runs: Sequence[Run]) -> float:
    """Return the images of a whole epoch, from one that is finished; 0 without any."""
    for run in runs:
        for epoch in epochs_of(run):
            part = min(1.0, epoch.number - first_position(run))
            if epoch.images and part > 0:
                return epoch.images / part
    return 0.0


def _levelled(pieces: Sequence[float], total: float) -> list[float]:
    """Cut the longest pieces to one length, so that the sum is `total` if it was more."""
    rest, shares = max(0.0, total), list(pieces)
    order = sorted(range(len(pieces)), key=pieces.__getitem__)
    for done, number in enumerate(order):
        shares[number] = min(pieces[number], rest / (len(pieces) - done))
        rest -= shares[number]
    return shares
