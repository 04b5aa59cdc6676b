"""Reads the records of one worker in the order of an epoch: a window of each lane at a time.

`batches` asks for records well before it needs them; threads read them into shared memory
meanwhile (`Windows`), from where decoders take them. A read of some neighbours has its place in the
memory as long as anything refers to one of its records: until the last of them is decoded, or
nobody wants them any more.

Each read has one or more whole windows, so that it is at least READ_BYTES long if its lane is. If
the number of workers does not divide the number of lanes, a worker reads only its own records of a
window. Memory holds the records of the windows that have begun: a read a lane when an epoch begins,
half of it on average; what was taken once stays taken.
"""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from imagenet_spec.order import READ_BYTES, WINDOW
from imagenet_workloads.data.memory import Arena
from imagenet_workloads.data.order import Integers, Order
from imagenet_workloads.records.split import Records

# Reads at a time; they wait for the disk and need no core.
READERS = 8


class DroppedError(Exception):
    """What was asked for is not wanted any more."""


class Wanted:
    """Whether what was begun together is still wanted: until the first error.

    One failure ends it all: a server that does not answer is not asked for the rest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.error: BaseException | None = None

    def end(self, error: BaseException) -> BaseException:
        """Want it no more; return the first error."""
        with self._lock:
            self.error = self.error or error
            return self.error


class Reading:
    """A read that may still run; what owns its place in the memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Then] | None = []
        self._error: BaseException | None = None

    def then(self, call: "_Then") -> None:
        """Call a function with the read's error, now or when it ends, in whichever thread."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.append(call)
                return
        call(self._error)

    def end(self, error: BaseException | None) -> None:
        with self._lock:
            # What waits refers to this read: it is forgotten, or nothing would be freed.
            waiting, self._waiting, self._error = self._waiting or [], None, error
        for call in waiting:
            call(error)


_Then = Callable[[BaseException | None], None]


@dataclass(frozen=True)
class PendingRecord:
    """A record whose read may still run: its format in FORMATS, and its place in the memory."""

    number: int
    format: int
    begin: int
    length: int
    reading: Reading


class Windows:
    """Memory for records, and the threads that read into it; `size` is only a limit."""

    def __init__(self, size: int) -> None:
        self.arena = Arena(size)
        self._threads = ThreadPoolExecutor(READERS, "read")
        self.descriptor = self.arena.memory.descriptor

    def read(self, records: Records, run: range, wanted: Wanted) -> list[PendingRecord]:
        """Start to read one of the `runs` of some records.

        If it is `wanted` no more when the read's turn comes, it ends with that error instead.
        """
        edges, format, reading = records.edges(run), records.format(run.start), Reading()
        begin = self.arena.take(edges[-1] - edges[0], reading)
        memory = self.arena.memory.view[begin : begin + edges[-1] - edges[0]]

        def fill() -> None:
            if wanted.error is None:
                try:
                    records.fill(run, memory)
                except BaseException as error:
                    wanted.end(error)
            reading.end(wanted.error)

        self._threads.submit(fill)
        return [
            PendingRecord(number, format, begin + edge - edges[0], end - edge, reading)
            for number, edge, end in zip(run, edges, edges[1:], strict=False)
        ]

    def close(self) -> None:
        self._threads.shutdown()


def largest_block(records: Records) -> int:
    """Return the most bytes that are read of a lane at a time."""
    return READ_BYTES + WINDOW * records.largest


@dataclass
class _Block:
    """What was read of a lane last: its records before the position `end`, by number."""

    end: int
    records: dict[int, PendingRecord]


class _Window(NamedTuple):
    first: int
    end: int
    next: int


class LaneReader:
    """The records of a worker in one epoch; reads that have not begun end with `wanted`."""

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
        """The records of a window that belong to the worker, from a position on."""
        lanes = self._order.lanes
        if self._stride == lanes and window.next - position == (window.end - window.first) * lanes:
            return list(range(window.first, window.end))
        end = min(window.next, self._order.records)
        found: list[int] = self._order.at(
            self._epoch, np.arange(position, end, self._stride)
        ).tolist()
        return found
