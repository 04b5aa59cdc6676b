"""Reads the records of one worker in the order of an epoch: a window of each lane at a time.

`Batches` asks for records well before it needs them; the reads run in threads meanwhile. Each read
has one or more whole windows, so that it is at least READ_BYTES long if its lane is. If the number
of workers does not divide the number of lanes, a worker reads only its own records of a window.
Memory holds the records of the windows that have begun: half a read a lane on average.
"""

import math
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from imagenet_workloads.reading.records import Records
from imagenet_workloads.train.order import Integers, Order

READ_BYTES = 1 << 20


class PendingRecord:
    """A record whose read may still run."""

    def __init__(self, number: int, read: "Future[list[bytes]]", place: int) -> None:
        """Take the record's number, the read, and the record's place in it."""
        self.number = number
        self._read, self._place = read, place

    def take(self) -> bytes:
        """Wait for the record, and return it once: memory no longer holds it."""
        records = self._read.result()
        record, records[self._place] = records[self._place], b""
        return record


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
        executor: Executor,
    ) -> None:
        """Take what is read.

        Args:
            records: of the split.
            order: of the same split.
            epoch: from 0.
            worker: from 0.
            workers: how many there are.
            executor: runs the reads.
        """
        self._records, self._order, self._epoch = records, order, epoch
        self._worker, self._workers, self._executor = worker, workers, executor
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
            read = self._executor.submit(self._records.read, run)
            for place, number in enumerate(run):
                records[number] = PendingRecord(number, read, place)
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
