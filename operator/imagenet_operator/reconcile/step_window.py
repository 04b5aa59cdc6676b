"""A window of steps: what all workers did in at least 100 steps each, between two samples.

The first steps of an attempt are left out, because they compile the network and open files. The
window begins at the first sample that shows steps, and the next one where it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Final

from imagenet_spec import metrics

TOTALS: Final = (
    metrics.TRAIN_STEP_SECONDS.count,
    metrics.TRAIN_IMAGES.name,
    metrics.TRAIN_STEP_SECONDS.sum,
    metrics.TRAIN_DATA_WAIT_SECONDS.sum,
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

    Attributes:
        of_each: Steps of one process, by the position of rank 0.
        steps: Steps of all processes.
        images: Trained images of all processes.
        seconds: Time of the steps of all processes, waits included.
        waited: The time in which they waited for data.
        read_waited: Of it, for records that were still being read. This and what follows is 0 if
            it is not measured.
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
        """Return the steps after those of an earlier sample."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Steps(*(now - then for now, then in pairs))

    @property
    def seconds_of_each(self) -> float:
        """Time of the steps of one process: all processes take a step together."""
        return self.seconds * self.of_each / self.steps


@dataclass(frozen=True)
class StepWindow:
    """The last complete window of an attempt, and the beginning of the next one.

    Attributes:
        begin: The totals at its beginning.
        last: The steps of the last complete window; None before the first one ends.
    """

    begin: Steps
    last: Steps | None = None


def advanced(
    former: StepWindow | None, sums: Mapping[str, float], position: int | None
) -> StepWindow | None:
    """Return the window after a sample of all workers; None before the first step.

    Args:
        former: The window before it.
        sums: Each series of `SERIES`, summed over the workers.
        position: The steps of rank 0 since the beginning of its first epoch; None if unknown.
    """
    if position is None or not sums[metrics.TRAIN_STEP_SECONDS.count] > 0:
        return former
    steps = (sums[name] for name in TOTALS)
    totals = Steps(position, *steps, *(sums.get(name, 0.0) for name in CAUSES))
    if former is None:
        return StepWindow(totals)
    found = totals.since(former.begin)
    return former if found.of_each < STEPS_OF_A_WINDOW else StepWindow(totals, found)
