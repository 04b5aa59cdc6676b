"""The memory that records are read into, by threads, from where decoders take them.

A read of some neighbours has its place in the memory as long as anything refers to one of its
records: until the last of them is decoded, or nobody wants them any more.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from imagenet_workloads.data.memory import Arena
from imagenet_workloads.records.split import Records

# Reads at a time; they wait for the disk and need no core.
READERS = 8


class DroppedError(Exception):
    """What was asked for is not wanted any more."""


class Wanted:
    """Whether what was begun together is still wanted.

    One failure ends it all: a server that does not answer is not asked for the rest.

    Attributes:
        error: of the first failure; None while it is wanted.
    """

    def __init__(self) -> None:
        """Want it."""
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
        """Begin."""
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
        """Note the end."""
        with self._lock:
            # What waits refers to this read: it is forgotten, or nothing would be freed.
            waiting, self._waiting, self._error = self._waiting or [], None, error
        for call in waiting:
            call(error)


_Then = Callable[[BaseException | None], None]


@dataclass(frozen=True)
class PendingRecord:
    """A record whose read may still run.

    Attributes:
        number: of the record.
        format: the number of its format in FORMATS.
        begin: where it begins in the memory.
        length: its bytes.
        reading: that it is a part of.
    """

    number: int
    format: int
    begin: int
    length: int
    reading: Reading


class Windows:
    """Memory for records, and the threads that read into it.

    Attributes:
        arena: the memory.
        descriptor: of it, for who decodes.
    """

    def __init__(self, size: int) -> None:
        """Make it; `size` is only a limit, and memory is taken when it is used."""
        self.arena = Arena(size)
        self._threads = ThreadPoolExecutor(READERS, "read")
        self.descriptor = self.arena.memory.descriptor

    def read(self, records: Records, run: range, wanted: Wanted) -> list[PendingRecord]:
        """Start to read one of the `runs` of some records.

        Args:
            records: of a split.
            run: which of them.
            wanted: if no more when the read's turn comes, it ends with that error instead.
        """
        edges, format, reading = records.edges(run), records.format(run.start), Reading()
        begin = self.arena.take(edges[-1] - edges[0], reading)
        memory = self.arena.memory.view[begin : begin + edges[-1] - edges[0]]
        self._threads.submit(_fill, records, run, memory, reading, wanted)
        return [
            PendingRecord(number, format, begin + edge - edges[0], end - edge, reading)
            for number, edge, end in zip(run, edges, edges[1:], strict=False)
        ]

    def close(self) -> None:
        """Wait for the reads that have begun, and end the threads."""
        self._threads.shutdown()


def _fill(
    records: Records, run: range, memory: memoryview, reading: Reading, wanted: Wanted
) -> None:
    if wanted.error is None:
        try:
            records.fill(run, memory)
        except BaseException as error:
            wanted.end(error)
    reading.end(wanted.error)
