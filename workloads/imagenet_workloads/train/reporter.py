"""Reports the progress of a worker's training: metrics on every rank, the attempt's log on rank 0.

`loop` says what happened; here it becomes figures over the right interval. `growth_reported` shows
the progress of a call that says nothing meanwhile by the files that it writes.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from imagenet_spec import events
from imagenet_workloads.checkpoint import Position
from imagenet_workloads.telemetry.event_log import EventLog
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.counts import Counts

_readable = logging.getLogger(__name__)

# Seconds after which a slow training is heard of again, whatever --disp-batches says.
LONGEST_SILENCE = 10.0
# Seconds of an epoch that are announced with the first steps.
LONG_EPOCH = 3600.0
# Between two looks at files that grow.
GROWTH_INTERVAL_SECONDS = 1.0


class Reporter:
    """Reports for one worker; its recorder is told directly what needs no interval and no event."""

    def __init__(
        self,
        recorder: TrainingRecorder,
        log: EventLog | None,
        display_every: int,
        batches_per_epoch: int,
        clock: Callable[[], float] = time.monotonic,
        listener: Callable[[events.Event], None] = lambda event: None,
        trained_before: float = 0.0,
        device: str = "this CPU",
    ) -> None:
        """Report to the recorder, on some ranks to a log, and every event to the listener.

        A line is due after `display_every` batches, and after the last of an epoch. Earlier
        attempts had trained `trained_before` epochs, with their fraction. `device` says in words
        what trains.
        """
        self.recorder, self._log, self._clock = recorder, log, clock
        self._listener, self._trained_before = listener, trained_before
        self._display_every, self._last = display_every, batches_per_epoch
        self._device, self._steps = device, 0
        self.pause()

    def pause(self) -> None:
        """Begin a new interval, after something that is not training."""
        self._interval_started = self._clock()
        self._interval_images = 0

    def step(
        self,
        position: Position,
        images: int,
        seconds: float,
        waited: float,
        rate: Callable[[], float],
        counts: Callable[[], Counts],
    ) -> None:
        """Report one step, at the position after it in the epoch that it belongs to.

        Of its seconds it `waited` so many for data. `counts` returns those over the epoch so far.
        """
        reached = position.epoch + position.batch / self._last
        self.recorder.step(images, seconds, waited, redone=reached <= self._trained_before)
        self.recorder.position(position.epoch, position.batch)
        self.recorder.learning_rate(rate)
        self._interval_images += images
        self._steps += 1
        # The first step may compile.
        if self._steps == 2 and self._log is not None and seconds * self._last >= LONG_EPOCH:
            _readable.info(
                "an epoch takes about %.1f h on %s: %d batches of %.1f s",
                seconds * self._last / 3600,
                self._device,
                self._last,
                seconds,
            )
        elapsed = self._clock() - self._interval_started
        due = position.batch % self._display_every == 0 or position.batch == self._last
        if due or elapsed >= LONGEST_SILENCE:
            speed, so_far = self._interval_images / max(elapsed, 1e-9), counts()
            top1, top5 = so_far.accuracy(so_far.top1), so_far.accuracy(so_far.top5)
            loss = finite(so_far.loss)
            self.recorder.speed(speed)
            self.recorder.accuracy(loss, top1, top5)
            self.write(
                events.Progress(position.epoch, position.batch, speed, loss, top1, top5, rate())
            )
            self.pause()

    def epoch(self, epoch: int, seconds: float, counts: Counts, workers: int) -> None:
        """Report a finished epoch; `workers` is 1 if the counts cover all of them."""
        speed = counts.images * workers / seconds
        self.write(
            events.EpochFinished(
                epoch,
                seconds,
                speed,
                finite(counts.loss),
                counts.accuracy(counts.top1),
                counts.accuracy(counts.top5),
            )
        )

    def validation(self, epoch: int, counts: Counts, top_k: int) -> None:
        """Report an evaluation after an epoch; `top_k` is a further k that was counted."""
        top1, top5 = counts.accuracy(counts.top1), counts.accuracy(counts.top5)
        self.recorder.validation(top1, top5)
        self.write(events.Validated(epoch, counts.images, top1, top5, finite(counts.loss)))
        if top_k:
            accuracy = counts.accuracy(counts.top_k)
            _readable.info("epoch %d validated: top-%d %.4f", epoch + 1, top_k, accuracy)

    def checkpoint(self, position: Position, seconds: float) -> None:
        """Report a complete checkpoint, and the seconds from its copy to its name."""
        self.recorder.checkpoint(position.epoch)
        self.write(events.CheckpointWritten(position.epoch, position.batch, position.name, seconds))

    def write(self, event: events.Event) -> None:
        if self._log is not None:
            self._log.write(event)
        self._listener(event)


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for what is none."""
    return value if math.isfinite(value) else None


@contextmanager
def growth_reported(
    folder: Path,
    report: Callable[[], None],
    interval: float = GROWTH_INTERVAL_SECONDS,
    pattern: str = "**/*",
) -> Iterator[None]:
    """Call `report` from another thread when files below a folder that match a pattern have grown.

    So a call that writes files and says nothing meanwhile, such as a framework's save, shows its
    progress.
    """
    ended = threading.Event()
    at_start = _sizes(folder, pattern)

    def watch() -> None:
        before = at_start
        while not ended.wait(interval):
            now = _sizes(folder, pattern)
            if now != before:
                report()
            before = now

    thread = threading.Thread(target=watch, name="file growth", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _sizes(folder: Path, pattern: str) -> dict[Path, int]:
    found = {}
    for path in folder.glob(pattern):
        try:
            found[path] = path.stat().st_size
        except FileNotFoundError:  # renamed meanwhile
            continue
    return found
