"""What the processes of an attempt did between two samples: windows of steps, and of exchanges.

A window of steps is what all workers did in at least 100 steps each. The first steps of an attempt
are left out, because they compile the network and open files. The window begins at the first sample
that shows steps, and the next one where it ends. `policies.data_wait` decides by it.

The times of the processes before their exchanges of gradients are compared. A sample has them as
running totals. A window ends with the first sample after enough exchanges and enough time. Then the
mean of each process is divided by the median of all. The median of an even number of processes is
the lower of the two in the middle: of two, the slower one is compared with the other.
`policies.stragglers` decides by the latest windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta
from statistics import median_low
from typing import Final

from imagenet_operator.reconcile.scrape import BeforeExchange
from imagenet_spec import metrics

TOTALS: Final = (
    metrics.TRAIN_STEP_SECONDS.count_series,
    metrics.TRAIN_IMAGES.name,
    metrics.TRAIN_STEP_SECONDS.sum_series,
    metrics.TRAIN_DATA_WAIT_SECONDS.sum_series,
)
CAUSES: Final = tuple(
    metric.name
    for metric in (
        metrics.TRAIN_READ_WAIT,
        metrics.TRAIN_DECODE_WAIT,
        metrics.TRAIN_DECODERS,
        metrics.TRAIN_DECODERS_CPU,
        metrics.TRAIN_THROTTLED,
        metrics.TRAIN_LAUNCHED_STEPS,
        metrics.TRAIN_STARVED_STEPS,
    )
)
"""The series that say what steps waited for. With `TOTALS` before it, in the order of `Steps`."""

SERIES: Final = frozenset({*TOTALS, *CAUSES})
"""The series that are summed over the workers."""

STEPS_OF_A_WINDOW: Final = 100
"""Steps of each process."""


@dataclass(frozen=True)
class Steps:
    """Steps of all workers together; those of each of their processes are added up.

    What is not measured is 0.

    Attributes:
        of_each: Steps of one process, by the position of rank 0.
        seconds: Time of the steps of all processes, waits included.
        waited: The time in which they waited for data.
        read_waited: Of it, for records that were still being read.
        decode_waited: Of it, for images whose records had been read.
        decoded: The time of all decoders.
        decoded_cpu: Of it, that of processors.
        throttled: The time for which CPU limits have stopped threads.
        launched: Steps of which is known whether the GPU waited for the program.
        starved: Of them, those in which it did.
    """

    of_each: float
    steps: float
    images: float
    seconds: float
    waited: float
    read_waited: float = 0.0
    decode_waited: float = 0.0
    decoded: float = 0.0
    decoded_cpu: float = 0.0
    throttled: float = 0.0
    launched: float = 0.0
    starved: float = 0.0

    def since(self, before: Steps) -> Steps:
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Steps(*(now - then for now, then in pairs))

    @property
    def seconds_of_each(self) -> float:
        """Time of the steps of one process: all processes take a step together."""
        return self.seconds * self.of_each / self.steps


@dataclass(frozen=True)
class StepWindow:
    """The last complete window of an attempt, and the beginning of the next one."""

    begin: Steps
    last: Steps | None = None


def advanced(
    former: StepWindow | None, sums: Mapping[str, float], position: int | None
) -> StepWindow | None:
    """Return the window after a sample of all workers; None before the first step.

    `sums` are over the workers. `position` is the steps of rank 0 since the beginning of its first
    epoch.
    """
    if position is None or not sums[metrics.TRAIN_STEP_SECONDS.count_series] > 0:
        return former
    steps = (sums[name] for name in TOTALS)
    totals = Steps(position, *steps, *(sums.get(name, 0.0) for name in CAUSES))
    if former is None:
        return StepWindow(totals)
    found = totals.since(former.begin)
    return former if found.of_each < STEPS_OF_A_WINDOW else StepWindow(totals, found)


EXCHANGES: Final = 20
"""The fewest exchanges of a window. Means of a few steps differ by chance."""

WINDOW: Final = timedelta(seconds=10)
"""The least time of a window. Another program may take the processor for some seconds."""

WINDOWS: Final = 3
"""How many windows are kept: at least 60 exchanges, and 30 seconds."""

Process = tuple[str, str]
"""A pod's name, and the process's slot; the slot is empty if the pod has only one process."""


@dataclass(frozen=True)
class Comparison:
    """The processes of an attempt, compared over its latest windows.

    A window has by how many times each process took the median.
    """

    began_at: datetime
    began: Mapping[Process, BeforeExchange]
    windows: tuple[Mapping[Process, float], ...] = ()

    @property
    def factors(self) -> Mapping[Process, tuple[float, ...]]:
        """The factors of each process in the latest windows; empty before there are enough."""
        if len(self.windows) < WINDOWS:
            return {}
        return {
            process: tuple(window[process] for window in self.windows) for process in self.began
        }


def compared(
    former: Comparison | None,
    workers: Mapping[str, Mapping[str, BeforeExchange]],
    now: datetime,
) -> Comparison | None:
    """Return the comparison with the totals of a sample; None without two processes to compare.

    The totals of each worker: pod's name → slot → totals.
    """
    totals = {(pod, slot): item for pod, slots in workers.items() for slot, item in slots.items()}
    if len(totals) < 2:
        return None
    if former is None or former.began.keys() != totals.keys():
        return Comparison(now, totals)
    spent = {process: total.since(former.began[process]) for process, total in totals.items()}
    if any(item.seconds < 0 or item.exchanges < 0 for item in spent.values()):
        return Comparison(now, totals)  # other processes of the same names
    if now - former.began_at < WINDOW or min(item.exchanges for item in spent.values()) < EXCHANGES:
        return former
    means = {process: item.seconds / item.exchanges for process, item in spent.items()}
    middle = median_low(means.values())
    factors = {process: mean / middle if middle else 1.0 for process, mean in means.items()}
    windows = (*former.windows, factors)[-WINDOWS:]
    return replace(former, began_at=now, began=totals, windows=windows)
