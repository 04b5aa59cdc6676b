"""The times of an attempt's processes before their exchanges of gradients, compared in windows.

A sample has them as running totals. A window ends with the first sample after enough exchanges and
enough time. Then the mean of each process is divided by the median of all. The median of an even
number of processes is the lower of the two in the middle: of two, the slower one is compared with
the other. `policies.stragglers` decides by the latest windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median_low
from typing import Final

from imagenet_operator.reconcile.scrape import BeforeExchange

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

    Attributes:
        began_at: When the present window began.
        began: The totals of the processes at that time.
        windows: Of the last `WINDOWS` windows: by how many times each process took the median.
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

    Args:
        former: The comparison of the sample before.
        workers: The totals of each worker of the attempt: pod's name → slot → totals.
        now: When the sample was taken.
    """
    totals = {(pod, slot): item for pod, slots in workers.items() for slot, item in slots.items()}
    if len(totals) < 2:
        return None
    if former is None or not _continue(former.began, totals):
        return Comparison(now, totals)
    spent = {process: total.since(former.began[process]) for process, total in totals.items()}
    if now - former.began_at < WINDOW or min(item.exchanges for item in spent.values()) < EXCHANGES:
        return former
    means = {process: item.seconds / item.exchanges for process, item in spent.items()}
    middle = median_low(means.values())
    factors = {process: mean / middle if middle else 1.0 for process, mean in means.items()}
    windows = (*former.windows, factors)[-WINDOWS:]
    return replace(former, began_at=now, began=totals, windows=windows)


def _continue(
    began: Mapping[Process, BeforeExchange], totals: Mapping[Process, BeforeExchange]
) -> bool:
    """Whether totals are later ones of the same processes."""
    return began.keys() == totals.keys() and all(
        total.seconds >= began[process].seconds and total.exchanges >= began[process].exchanges
        for process, total in totals.items()
    )
