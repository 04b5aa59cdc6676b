"""The figures of the order in which an epoch trains its records, and of the reader that follows it.

docs/order.md describes both. The resource judges by them how many workers an attempt may have and
what reading takes; the workloads' `data.order`, `data.windows` and `data.batches` read by them.
"""

from __future__ import annotations

from typing import Final

# Divisible by 1 to 8, 10, 12, 14 and 15, which are the numbers of workers with lanes of their own.
LANES: Final = 840

DIVISORS: Final = tuple(number for number in range(1, LANES + 1) if LANES % number == 0)
"""The numbers of workers that divide the lanes, in ascending order."""

# With shorter lanes, the images of a batch would be nearly the same in every epoch.
SHORTEST_LANE: Final = 32

# Records of a window: 1.5 MiB of ImageNet at 480 pixels.
WINDOW: Final = 16

READ_BYTES: Final = 1 << 20
"""The least bytes of a read, if its lane has so many."""

# One is read by the step, and the others are in the making.
TRAINING_SLOTS: Final = 4
VALIDATION_SLOTS: Final = 3

FEWEST_CORES: Final = 3
"""On fewer, threads decode unless `--decoding processes` says otherwise."""


def count_lanes(records: int) -> int:
    """Return the largest divisor of LANES that leaves every lane SHORTEST_LANE records, or 1.

    >>> [count_lanes(records) for records in (10, 100, 1347, 26_880, 14_000_000)]
    [1, 3, 42, 840, 840]
    """
    return next((lanes for lanes in DIVISORS[::-1] if records // lanes >= SHORTEST_LANE), 1)
