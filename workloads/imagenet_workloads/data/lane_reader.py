"""Reads the records of one worker in the order of an epoch: a window of each lane at a time.

`batches` asks for records well before it needs them; threads read them into shared memory
meanwhile (`windows`). Each read has one or more whole windows, so that it is at least READ_BYTES
long if its lane is. If the number of workers does not divide the number of lanes, a worker reads
only its own records of a window. Memory holds the records of the windows that have begun: a read a
lane when an epoch begins, half of it on average; what was taken once stays taken.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from imagenet_workloads.data.order import WINDOW, Integers, Order
from imagenet_workloads.data.windows import PendingRecord, Wanted, Windows
from imagenet_workloads.records.split import Records

READ_BYTES = 1 << 20


def largest_block(records: Records) -> int:
    """Return the most bytes that are read of a lane at a time."""
    return READ_BYTES + WINDOW * records.largest


@dataclass
class _Block:
    """What was read of a lane last: its records before the position `end`, by number."""

    end: int
    records: dict[int, PendingRecord]


class _Window(NamedTuple):
    """One of `Windows`."""

    first: int
    end: int
    next: int


class LaneReader:
    """The records of a worker in one epoch."""

    def __init__(
        self,
        records: Records,
        order: Order,
        epoch: int,
        worker: int,
        workers: int,
        memory: Windows,
        wanted: Wanted,
    ) -> None:
        """Take what is read.

        Args:
            records: of the split.
            order: of the same split.
            epoch: from 0.
            worker: from 0.
            workers: how many there are.
            memory: where they are read to.
            wanted: reads that have not begun end with it.
        """
        self._records, self._order, self._epoch = records, order, epoch
        self._worker, self._workers = worker, workers
        self._memory, self._wanted = memory, wanted
        # Of one lane, every so many turns belong to this worker.
        self._stride = math.lcm(order.lanes, workers)
        self._blocks: dict[int, _Block] = {}

    def begin(self, positions: Integers) -> list[PendingRecord]:
        """Start to read the records at the worker's next positions, unless they were read ahead."""
        windows = self._order.windows(self._epoch, positions)
        columns = (positions, self._order.at(self._epoch, positions), *windows)
        pending = []
        for position, number, first, end, after in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            lane = position % self._order.lanes
            block = self._blocks.get(lane)
            if block is None or position >= block.end:
                block = self._blocks[lane] = self._read(position, _Window(first, end, after))
            pending.append(block.records.pop(number))
        return pending

    def _read(self, position: int, window: _Window) -> _Block:
        """Read the worker's records from a position to the end of a window of its lane."""
        own = self._own(position, window)
        size = self._records.size(own)
        while size < READ_BYTES and window.next < self._order.records:
            position = position + -(-(window.next - position) // self._stride) * self._stride
            columns = self._order.windows(self._epoch, np.array([window.next]))
            window = _Window(*(int(column[0]) for column in columns))
            more = self._own(position, window)
            size += self._records.size(more)
            own += more
        records: dict[int, PendingRecord] = {}
        for run in self._records.runs(sorted(own)):
            read = self._memory.read(self._records, run, self._wanted)
            records |= {one.number: one for one in read}
        return _Block(window.next, records)

    def _own(self, position: int, window: _Window) -> list[int]:
        """Return the records of a window that belong to the worker, from a position on."""
        lanes = self._order.lanes
        if self._stride == lanes and window.next - position == (window.end - window.first) * lanes:
            return list(range(window.first, window.end))
        end = min(window.next, self._order.records)
        found: list[int] = self._order.at(
            self._epoch, np.arange(position, end, self._stride)
        ).tolist()
        return found
