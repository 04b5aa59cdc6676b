"""The metrics of a training worker, as methods for what happened, and the account of its time.

`imagenet-train` calls them from its loop; each takes a few microseconds.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from imagenet_spec import metrics
from imagenet_workloads.cores import throttled_seconds
from imagenet_workloads.telemetry.server import Registry

_TIME_PHASES = {
    metrics.Phase.RESUMING: metrics.TimePhase.RESTORING,
    # Until the first step is complete, the data is opened.
    metrics.Phase.TRAINING: metrics.TimePhase.DATA,
    metrics.Phase.EVALUATING: metrics.TimePhase.EVALUATING,
    metrics.Phase.SAVING: metrics.TimePhase.CHECKPOINTING,
    metrics.Phase.EXPORTING: metrics.TimePhase.EXPORTING,
    metrics.Phase.ENDING: metrics.TimePhase.ENDING,
}
# Steps of which the CPU time of the loop is the median.
STEPS_OF_LOOP_CPU = 1000
# Steps that wait for a scrape, at most: their export takes some 4 ms.
MOST_STEPS = 1000


@dataclass(frozen=True)
class ReadingTimes:
    """Why steps waited for their data, in seconds since the data was opened.

    Attributes:
        read_waited: waits for records that were still being read.
        decode_waited: waits for images whose records had been read.
        decoded: what all decoders have spent on images together.
        decoded_cpu: of it, what they had a processor; None if that is not measured.
    """

    read_waited: float
    decode_waited: float
    decoded: float
    decoded_cpu: float | None


class TimeAccount:
    """Seconds of one process by phase, which add up to its wall time; thread-safe.

    The process is in one phase at a time. Before the first `enter` it is starting. A step counts
    when it is complete, so a hang in a step is never counted as training.
    """

    def __init__(self, age: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """The process has run for `age` seconds already, which count as starting."""
        self._clock, self._lock = clock, threading.Lock()
        self._phase, self._since = metrics.TimePhase.STARTING, clock() - age
        self._seconds = dict.fromkeys(metrics.TimePhase, 0.0)

    def enter(self, phase: metrics.TimePhase) -> None:
        with self._lock:
            self._spend(self._phase, self._clock())
            self._phase = phase

    def step(self, waited: float, redone: bool) -> None:
        """Divide the time since the phase began, or since the former step, at the end of a step.

        It `waited` so many seconds for its data. If an earlier attempt had trained it, all is lost
        time.
        """
        with self._lock:
            now = self._clock()
            self._phase = metrics.TimePhase.REDONE if redone else metrics.TimePhase.STEPPING
            if not redone:
                self._spend(metrics.TimePhase.DATA, min(now, self._since + waited))
            self._spend(self._phase, now)

    def seconds(self) -> dict[metrics.TimePhase, float]:
        """Return the seconds by phase until now, without a step in progress."""
        with self._lock:
            found = dict(self._seconds)
            if self._phase not in (metrics.TimePhase.STEPPING, metrics.TimePhase.REDONE):
                found[self._phase] += self._clock() - self._since
            return found

    def _spend(self, phase: metrics.TimePhase, until: float) -> None:
        self._seconds[phase] += until - self._since
        self._since = until


def process_age() -> float:
    """Return for how many seconds this process exists; 0 if the system does not say."""
    try:
        # The name of the program, in parentheses, may hold spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


class TrainingRecorder:
    """Writes a worker's metrics to a registry, and has the account of its time."""

    def __init__(self, registry: Registry, time: TimeAccount | None = None) -> None:
        self._registry = registry
        self.time = TimeAccount() if time is None else time
        self._exporting = threading.Lock()
        registry.before_scrape(self._export)
        self._at_work = False
        self._phase: metrics.Phase | None = None
        self._saves, self._unsaved, self._copied = False, 0.0, 0.0
        self._loop_cpu = deque[float](maxlen=STEPS_OF_LOOP_CPU)
        self._reading: Callable[[], ReadingTimes | None] = lambda: None
        self._utilization: Callable[[], float | None] = lambda: None
        self._launched = self._starved = 0
        self._totals: dict[tuple[str, ...], float] = {}
        # Images, seconds and wait of steps, and what else the last one changed.
        self._steps = deque[tuple[int, float, float]]()
        self._position: tuple[int, int] | None = None
        self._rate: Callable[[], float] | None = None

    def readiness(self) -> str | None:
        """Return why the worker is not ready; None if it is.

        It is ready once a batch is trained, because its peers and its own part work then. A worker
        that only evaluates a finished training is ready at once.
        """
        return None if self._at_work else "no batch is trained yet"

    def phase(self, phase: metrics.Phase) -> None:
        if self._phase not in (None, phase):
            self._registry.set(metrics.TRAIN_PHASE, 0, self._phase)
        self._phase = phase
        self.time.enter(_TIME_PHASES[phase])
        self._registry.set(metrics.TRAIN_PHASE, 1, phase)
        self.work()

    def work(self) -> None:
        """Counts one unit of the phase's work: without any, the worker is taken for one that hangs.

        Safe to call from several threads.
        """
        if self._phase is not None:
            self._registry.add(metrics.TRAIN_PHASE_WORK, 1, self._phase)

    def begin_steps(self) -> None:
        """End the opening of an epoch's data."""
        self.time.enter(metrics.TimePhase.STEPPING)

    def plan(self, epochs: int, batches_per_epoch: int, rank: int) -> None:
        self._registry.set(metrics.TRAIN_EPOCHS, epochs)
        self._registry.set(metrics.TRAIN_BATCHES_PER_EPOCH, batches_per_epoch)
        self._registry.set(metrics.TRAIN_RANK, rank)
        self._saves = rank == 0
        self._registry.add(metrics.TRAIN_IMAGES, 0)

    def position(self, epoch: int, batch: int) -> None:
        """Set the current epoch, from 0, and its finished batches; also after a resume."""
        self._position = epoch, batch

    def step(
        self,
        images: int,
        step_seconds: float,
        data_wait_seconds: float,
        redone: bool = False,
    ) -> None:
        """Record a step that ends now; its wait for data is a part of its seconds."""
        self.time.step(data_wait_seconds, redone)
        self._at_work = True
        if self._saves:
            self._unsaved += step_seconds - data_wait_seconds
        self._steps.append((images, step_seconds, data_wait_seconds))
        if len(self._steps) >= MOST_STEPS:
            self._export()

    def reading(self, times: Callable[[], ReadingTimes | None]) -> None:
        """Take what says how the reading went so far; None if it is not measured."""
        self._reading = times

    def utilization(self, measure: Callable[[], float | None]) -> None:
        """Take what measures the utilization of this worker's GPUs, 0..1; None if it cannot."""
        self._utilization = measure

    def launched(self, starved: bool | None) -> None:
        """Count a step by whether its device waited for the program; None if that is not known."""
        if starved is not None:
            self._launched, self._starved = self._launched + 1, self._starved + starved

    def compiled(self, is_compiled: bool | None) -> None:
        """Set whether compiled code trains; None where it was not chosen."""
        self._set_known(metrics.TRAIN_COMPILED, is_compiled)

    def loop_cpu(self, seconds: float) -> None:
        """Note the CPU time of the training thread in a step, outside the framework's calls."""
        self._loop_cpu.append(seconds)

    def median_loop_cpu(self) -> float | None:
        """Return the median of the last steps in seconds; None before the first."""
        steps = self._loop_cpu.copy()  # the training thread adds to it
        return median(steps) if steps else None

    def measured(self) -> dict[str, float]:
        """Return the totals that say what steps have waited for, by metric, as far as measured."""
        self._export()
        return {name: total for (name, *labels), total in self._totals.items() if not labels}

    def exchange(self, seconds: float) -> None:
        """Count an exchange of gradients, which was ready after so many seconds of this worker."""
        self._registry.add(metrics.TRAIN_BEFORE_EXCHANGE, seconds)
        self._registry.add(metrics.TRAIN_EXCHANGES, 1)

    def speed(self, images_per_second: float) -> None:
        self._registry.set(metrics.TRAIN_IMAGES_PER_SECOND, images_per_second)

    def learning_rate(self, rate: Callable[[], float]) -> None:
        self._rate = rate

    def accuracy(
        self, loss: float | None = None, top1: float | None = None, top5: float | None = None
    ) -> None:
        """Set loss (nats) and accuracies (0..1) over the epoch's training images so far."""
        self._set_known(metrics.TRAIN_LOSS, loss)
        self._set_known(metrics.TRAIN_TOP1, top1)
        self._set_known(metrics.TRAIN_TOP5, top5)

    def validation(self, top1: float, top5: float | None = None) -> None:
        """Set the accuracies (0..1) over all validation images, after an epoch."""
        self._at_work = True
        self._registry.set(metrics.TRAIN_VALIDATION_TOP1, top1)
        self._set_known(metrics.TRAIN_VALIDATION_TOP5, top5)

    def copied(self) -> None:
        """Note what has been trained when the next checkpoint is copied."""
        self._copied = self._unsaved

    def checkpoint(self, epoch: int) -> None:
        self._registry.set(metrics.TRAIN_CHECKPOINT_EPOCH, epoch)
        self._unsaved -= self._copied
        self._copied = 0.0

    def checkpoint_stall(self, mean: float | None, interval: float) -> None:
        """Set the stall of a checkpoint and the time between two of them, in seconds."""
        self._set_known(metrics.TRAIN_CHECKPOINT_STALL, mean)
        self._registry.set(metrics.TRAIN_CHECKPOINT_INTERVAL, interval)

    def _export(self) -> None:
        """Write what changes with each step, and is read with a scrape alone."""
        with self._exporting:  # two scrapes may come at once
            while self._steps:
                images, seconds, waited = self._steps.popleft()
                self._registry.add(metrics.TRAIN_PHASE_WORK, 1, metrics.Phase.TRAINING)
                self._registry.add(metrics.TRAIN_IMAGES, images)
                self._registry.observe(metrics.TRAIN_STEP_SECONDS, seconds)
                self._registry.observe(metrics.TRAIN_DATA_WAIT_SECONDS, waited)
            if self._position is not None:
                epoch, batch = self._position
                self._registry.set(metrics.TRAIN_EPOCH, epoch)
                self._registry.set(metrics.TRAIN_BATCH, batch)
            if self._rate is not None:
                self._registry.set(metrics.TRAIN_LEARNING_RATE, self._rate())
            if self._saves and self._at_work:
                self._registry.set(metrics.TRAIN_UNSAVED_SECONDS, self._unsaved)
            for phase, seconds in self.time.seconds().items():
                self._total(metrics.TRAIN_SECONDS, seconds, phase)
            throttled = throttled_seconds()
            if throttled is not None:
                self._total(metrics.TRAIN_THROTTLED, throttled)
            self._set_known(metrics.TRAIN_LOOP_CPU, self.median_loop_cpu())
            if (utilization := self._utilization()) is not None:
                self._registry.set(metrics.TRAIN_GPU_UTILIZATION, utilization)
            else:
                self._registry.remove(metrics.TRAIN_GPU_UTILIZATION)
            reading = self._reading()
            if reading is not None:
                self._total(metrics.TRAIN_READ_WAIT, reading.read_waited)
                self._total(metrics.TRAIN_DECODE_WAIT, reading.decode_waited)
                self._total(metrics.TRAIN_DECODERS, reading.decoded)
                if reading.decoded_cpu is not None:
                    self._total(metrics.TRAIN_DECODERS_CPU, reading.decoded_cpu)
            if self._launched:
                self._total(metrics.TRAIN_LAUNCHED_STEPS, self._launched)
                self._total(metrics.TRAIN_STARVED_STEPS, self._starved)

    def _total(self, metric: metrics.Metric, total: float, *labels: str) -> None:
        """Let a counter have a total, unless it has more already."""
        before = self._totals.get((metric.name, *labels), 0.0)
        self._registry.add(metric, max(0.0, total - before), *labels)
        self._totals[metric.name, *labels] = max(total, before)

    def _set_known(self, metric: metrics.Metric, value: float | None) -> None:
        if value is not None:
            self._registry.set(metric, value)
