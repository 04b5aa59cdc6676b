"""Speedup and efficiency of the measured points.

A series is a strategy, or a network with one. Its baseline is its run with the fewest workers, or
GPUs if the sweep is about those. The efficiency is defined as 1 there. With a run of one worker or
GPU, this is the usual definition. If the planned baseline has no speed, no other run replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imagenet_operator.scaling import points


@dataclass(frozen=True)
class Measured:
    """The figures of one point.

    Attributes:
        strategy: Its name in the table.
        workers: The number of workers.
        seconds: The time in which all members ran, over all attempts.
        images_per_second: The sum over all workers; None if it is not known.
        top1: The accuracy on the validation images; None without any.
        network: The network's name in tables; empty for that of the manifest.
        model_bytes: The size of the trained model's files; None if it is not known.
        gpus: The GPUs of all workers; None if the sweep is not about GPUs.
    """

    strategy: str
    workers: int
    seconds: float
    images_per_second: float | None = None
    top1: float | None = None
    network: str = ""
    model_bytes: int | None = None
    gpus: int | None = None

    @property
    def units(self) -> int:
        """The number of GPUs of a sweep on GPUs, else of workers."""
        return self.gpus or self.workers

    @property
    def series(self) -> str:
        """What its points have in common: the network, if several are compared, and strategy."""
        return points.series(self.network, self.strategy)


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        measured: The figures of the point.
        speedup: The speedup over one worker or GPU; None if one of the speeds is not known.
        efficiency: The speedup divided by the number of workers or GPUs.
    """

    measured: Measured
    speedup: float | None = None
    efficiency: float | None = None


def rows(measured: Sequence[Measured], planned: Mapping[str, int] | None = None) -> list[Row]:
    """Return the rows, with series in their order, each sorted by workers or GPUs.

    Args:
        measured: The figures of the points that succeeded.
        planned: The smallest planned number of workers or GPUs of each series; by default the
            smallest measured one.
    """
    order = list(dict.fromkeys(item.series for item in measured))
    ordered = sorted(measured, key=lambda item: (order.index(item.series), item.units))
    singles = {
        series: _single_speed(
            next(item for item in ordered if item.series == series), (planned or {}).get(series)
        )
        for series in order
    }
    return [_row(item, singles[item.series]) for item in ordered]


def _single_speed(first: Measured, planned: int | None) -> float | None:
    """Return the speed of one worker or GPU of a series, from its smallest run."""
    if not first.images_per_second or planned not in (None, first.units):
        return None
    return first.images_per_second / first.units


def _row(item: Measured, single: float | None) -> Row:
    if single is None or item.images_per_second is None:
        return Row(item)
    speedup = item.images_per_second / single
    return Row(item, speedup, speedup / item.units)
