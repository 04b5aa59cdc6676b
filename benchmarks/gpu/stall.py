"""What checkpoints cost a training, from the events of an attempt: pure."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

INTERVAL_SECONDS = 10.0
"""The seconds between checkpoints to which a stall is related."""

_LATER_STEPS = 11
"""Steps after a checkpoint that still belong to it: its receipt is completed in the tenth."""


@dataclass(frozen=True)
class Stall:
    """The time that checkpoints take from the steps.

    Attributes:
        checkpoints: those within an epoch.
        seconds: above the median step, in all steps that a checkpoint touches, per checkpoint.
        longest: the longest of these steps, in seconds.
        median: the median of all other steps, in seconds.
    """

    checkpoints: int
    seconds: float
    longest: float
    median: float

    @property
    def part(self) -> float:
        """Of the time, with a checkpoint every `INTERVAL_SECONDS`."""
        return self.seconds / INTERVAL_SECONDS


def stall(events: Iterable[Mapping[str, Any]]) -> Stall | None:
    """Measure the stall of a training that reports each step.

    A step lasts from the report before it to its own. A checkpoint touches the steps from its begin
    to its end, and the 11 after them.

    Args:
        events: the lines of metrics.jsonl, with `--disp-batches 1`.

    Returns:
        the stall; None without a checkpoint or without other steps.
    """
    steps: list[tuple[float, float]] = []
    saved: list[tuple[float, float]] = []
    former: Mapping[str, Any] | None = None
    for event in events:
        if event["event"] == "progress":
            if former is not None and former["epoch"] == event["epoch"]:
                steps.append((former["time"], event["time"]))
            former = event
        elif event["event"] == "checkpoint" and event["batch"]:
            saved.append((event["time"] - event["seconds"], event["time"]))
    touched: set[int] = set()
    for begin, end in saved:
        of_it = [place for place, (a, b) in enumerate(steps) if b > begin and a < end]
        later = [place for place, (a, _) in enumerate(steps) if a >= end][:_LATER_STEPS]
        touched.update(of_it, later)
    durations = [b - a for a, b in steps]
    others = [one for place, one in enumerate(durations) if place not in touched]
    if not saved or not others:
        return None
    median = statistics.median(others)
    above = [max(0.0, durations[place] - median) for place in touched]
    longest = max((durations[place] for place in touched), default=median)
    return Stall(len(saved), sum(above) / len(saved), longest, median)
