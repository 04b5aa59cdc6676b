"""The arithmetic of a scaling table: speedup and efficiency of what was measured.

Each strategy is compared with itself: its run with the fewest workers is the measure, taken as that
many times one worker's speed. With one worker among them, that is the usual definition. Where that
run is planned and has no speed, nothing takes its place: it would be called ideal and is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """What one point came to.

    Attributes:
        strategy: How the table calls it.
        workers: How many trained.
        seconds: For which all members ran, over all attempts.
        images_per_second: Over all workers; None if it is not known.
        top1: Accuracy on the validation images; None without any.
    """

    strategy: str
    workers: int
    seconds: float
    images_per_second: float | None = None
    top1: float | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        measured: What the point came to.
        speedup: Over one worker; None if a speed is not known, or that of one worker is not.
        efficiency: Speedup by worker.
    """

    measured: Measured
    speedup: float | None = None
    efficiency: float | None = None


def rows(measured: Sequence[Measured], planned: Mapping[str, int] | None = None) -> list[Row]:
    """Return the lines of the table: strategies as they come, and by workers within each.

    Args:
        measured: What the points came to that succeeded.
        planned: The fewest workers that a strategy was to be run with; without a word, those that
            it was run with.
    """
    order = list(dict.fromkeys(item.strategy for item in measured))
    ordered = sorted(measured, key=lambda item: (order.index(item.strategy), item.workers))
    singles = {
        strategy: _single_speed(
            next(item for item in ordered if item.strategy == strategy),
            (planned or {}).get(strategy),
        )
        for strategy in order
    }
    return [_row(item, singles[item.strategy]) for item in ordered]


def _single_speed(first: Measured, planned: int | None) -> float | None:
    """Return the speed of one worker of a strategy, by its run with the fewest."""
    if not first.images_per_second or planned not in (None, first.workers):
        return None
    return first.images_per_second / first.workers


def _row(item: Measured, single: float | None) -> Row:
    if single is None or item.images_per_second is None:
        return Row(item)
    speedup = item.images_per_second / single
    return Row(item, speedup, speedup / item.workers)
