"""Keeps the records of a worker's lanes in a file, so that each is fetched once.

The records are cut into blocks. Readers and background threads fetch a block, whichever comes
first, and the others wait for it. A block is written as a whole before it is read.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import accumulate, pairwise
from pathlib import Path

from imagenet_workloads.errors import NO_ROOM, InputError, WorkloadError

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class BlockCache:
    """Blocks of records in one file; any thread may read."""

    def __init__(
        self,
        path: Path,
        blocks: Sequence[range],
        edges: Callable[[range], list[int]],
        fetch: Callable[[range], list[bytes]],
    ) -> None:
        """Create the file.

        Args:
            path: the file, which is replaced, in a folder that exists.
            blocks: records that are fetched together; ascending, each in one file of the dataset.
            edges: where each of some neighbours begins in its file, and the end of the last one.
            fetch: reads the records of a block.

        Raises:
            WorkloadError: the file cannot be created.
        """
        self._blocks, self._edges, self._fetch = tuple(blocks), edges, fetch
        self._firsts = [block.start for block in blocks]
        self._begins = list(accumulate(map(self._size, blocks), initial=0))
        self._path = path
        self._fetched: dict[int, Future[None]] = {}
        self._lock = threading.Lock()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise _unusable(path, error) from error

    @property
    def is_full(self) -> bool:
        """Whether every block was fetched, or begun."""
        return len(self._fetched) == len(self._blocks)

    def read(self, run: range) -> list[bytes]:
        """Return some neighbours, which the caller may take for itself.

        Raises:
            InputError: a record is damaged.
            WorkloadError: they cannot be fetched, or the cache cannot be read or written.
        """
        records: list[bytes] = []
        while run:
            at = self._find(run.start)
            if at is None:
                following = bisect_right(self._firsts, run.start)
                stop = min([run.stop, *self._firsts[following : following + 1]])
                records += self._fetch(range(run.start, stop))
            else:
                self.ensure(at)
                stop = min(run.stop, self._blocks[at].stop)
                records += self._kept(at, range(run.start, stop))
            run = range(stop, run.stop)
        return records

    @property
    def size(self) -> int:
        """The bytes of all blocks."""
        return self._begins[-1]

    def ensure(self, at: int) -> None:
        """Fetch a block unless it is here; wait if another thread fetches it.

        Raises:
            InputError: a record is damaged.
            WorkloadError: it cannot be fetched, or the cache cannot be written.
        """
        with self._lock:
            found = self._fetched.get(at)
            mine = self._fetched[at] = found or Future()
        if found is not None:
            found.result()
            return
        try:
            begin = self._begins[at]
            left = memoryview(b"".join(self._fetch(self._blocks[at])))
            try:
                while left:
                    written = os.pwrite(self._descriptor, left, begin)
                    left, begin = left[written:], begin + written
            except OSError as error:
                raise _unusable(self._path, error) from error
        except BaseException as error:
            with self._lock:
                del self._fetched[at]
            mine.set_exception(error)
            raise
        mine.set_result(None)

    def blocks_of(self, numbers: Iterable[int]) -> Iterator[int]:
        """Yield the blocks of some records in their order, each once."""
        seen: set[int] = set()
        for number in numbers:
            at = self._find(number)
            if at is not None and at not in seen:
                seen.add(at)
                yield at

    def close(self) -> None:
        """Delete the file; no thread reads any more."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def _find(self, number: int) -> int | None:
        """Return the block of a record."""
        at = bisect_right(self._firsts, number) - 1
        return at if at >= 0 and number in self._blocks[at] else None

    def _size(self, run: range) -> int:
        edges = self._edges(run)
        return edges[-1] - edges[0]

    def _kept(self, at: int, run: range) -> list[bytes]:
        edges = self._edges(run)
        block = self._edges(self._blocks[at])
        begin, length = self._begins[at] + edges[0] - block[0], edges[-1] - edges[0]
        try:
            content = os.pread(self._descriptor, length, begin)
        except OSError as error:
            raise _unusable(self._path, error) from error
        if len(content) != length:
            raise WorkloadError(f"{self._path}: the cache was cut off")
        return [content[a - edges[0] : b - edges[0]] for a, b in pairwise(edges)]


def require_room(needed: int, free: int) -> None:
    """Compare the bytes that a worker's lanes need with those that its cache has.

    Raises:
        InputError: they are too few.
    """
    if needed > free:
        raise InputError(
            f"the cache needs {_amount(needed)}, {_amount(free)} are free; write a larger "
            "workers.cache.size, add workers, or write no cache to read from the bucket in every "
            "epoch"
        )


def _amount(bytes: int) -> str:
    unit, size = next((pair for pair in _UNITS if bytes >= pair[1]), _UNITS[-1])
    return f"{bytes / size:.3g} {unit}"


def _unusable(path: Path, error: OSError) -> WorkloadError:
    if error.errno in NO_ROOM:
        return WorkloadError(f"{path}: the cache is full: {error.strerror}")
    return WorkloadError(f"{path}: the cache cannot be used: {error.strerror}")
