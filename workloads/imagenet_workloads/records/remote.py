"""The records of a published dataset: in a bucket, or on a server that knows ranges of bytes.

Each record is compared with its checksum (`record_sums`) when it arrives. With a cache
each record is fetched once, without one in every epoch. A cache cuts the records of a worker's
lanes into blocks. Readers and background threads fetch a block, whichever comes first, and the
others wait for it. A block is written as a whole before it is read.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from imagenet_workloads.clients.folders import RemoteFolder
from imagenet_workloads.dataset import FILE_NAME, Dataset, Shard, Split
from imagenet_workloads.errors import NO_ROOM, InputError, WorkloadError
from imagenet_workloads.records import format_named, image_list, record_sums
from imagenet_workloads.records.image_list import ListedImage
from imagenet_workloads.records.record_sums import RecordSums
from imagenet_workloads.records.split import OPENERS, RecordFile, Records

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
        """Create the file, or replace it, in a folder that exists.

        WorkloadError if that fails.

        Args:
            path: the file.
            blocks: records that are fetched together; ascending, each in one file of the dataset.
            edges: where each of some neighbours begins in its file, and the end of the last one.
            fetch: reads the records of a block.
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

        InputError if a record is damaged; WorkloadError if they cannot be fetched, or the cache
        cannot be read or written.
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
                part = range(run.start, stop)
                edges, block = self._edges(part), self._edges(self._blocks[at])
                begin, length = self._begins[at] + edges[0] - block[0], edges[-1] - edges[0]
                try:
                    content = os.pread(self._descriptor, length, begin)
                except OSError as error:
                    raise _unusable(self._path, error) from error
                if len(content) != length:
                    raise WorkloadError(f"{self._path}: the cache was cut off")
                records += [content[a - edges[0] : b - edges[0]] for a, b in pairwise(edges)]
            run = range(stop, run.stop)
        return records

    @property
    def size(self) -> int:
        return self._begins[-1]

    def ensure(self, at: int) -> None:
        """Fetch a block unless it is here, or wait for who does; errors as of `read`."""
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
        at = bisect_right(self._firsts, number) - 1
        return at if at >= 0 and number in self._blocks[at] else None

    def _size(self, run: range) -> int:
        edges = self._edges(run)
        return edges[-1] - edges[0]


def require_room(needed: int, free: int) -> None:
    """Refuse by an InputError a cache with less room than a worker's lanes need."""
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


# Requests for blocks that the epoch needs later. Readers fetch what they need at once themselves.
FETCHERS = 16
# Of a block: it is one request.
BLOCK_BYTES = 4 << 20
# A record that arrives damaged is fetched once more: the network may have damaged it.
_TRIES = 2


class RemoteRecords(Records):
    """The records of a split; any thread may read.

    `fetched` are the bytes of records that were read from the folder.
    """

    def __init__(
        self, folder: RemoteFolder, format: str, shards: Sequence[tuple[Shard, RecordSums]]
    ) -> None:
        kind = format_named(format)
        super().__init__(
            [RecordFile(Path(shard.record), kind, sums.edges) for shard, sums in shards]
        )
        self._folder = folder
        self._checksums = {shard.record: sums.checksums for shard, sums in shards}
        self._shards = {shard.record: shard for shard, _ in shards}
        self._cache: BlockCache | None = None
        self._counting = threading.Lock()
        self.fetched = 0

    def keep(self, cache: Path, blocks: Sequence[range]) -> None:
        """Keep the records of these `blocks` in a new file from now on.

        WorkloadError if the file cannot be created.
        """
        self._cache = BlockCache(cache, blocks, self.edges, self.fetch)

    def blocks(self, lanes: Iterable[range]) -> list[range]:
        """Cut lanes into blocks, each of one file and at least BLOCK_BYTES if the lane has them."""
        found: list[range] = []
        for lane in lanes:
            number = lane.start
            while number < lane.stop:
                file, place = self._place(number)
                edges = file.edges
                end = min(len(edges) - 1, place + lane.stop - number)
                stop = int(np.searchsorted(edges, edges[place] + BLOCK_BYTES))
                stop = min(max(stop, place + 1), end)
                found.append(range(number, number + stop - place))
                number = found[-1].stop
        return sorted(found, key=lambda block: block.start)

    def block_size(self, block: range) -> int:
        edges = self.edges(block)
        return edges[-1] - edges[0]

    def read(self, run: range) -> list[bytes]:
        """Read one of the `runs`, and return its records.

        InputError if a record is damaged; WorkloadError if the server cannot be reached, or the
        cache is full.
        """
        if self._cache is None:
            return self.fetch(run)
        return self._cache.read(run)

    def fill(self, run: range, memory: memoryview) -> None:
        """Read one of the `runs` into memory of its length; errors are those of `read`."""
        memory[:] = b"".join(self.read(run))

    def fetch(self, run: range) -> list[bytes]:
        """Read one of the `runs` from the folder and verify its records; errors as of `read`."""
        file, place = self._place(run.start)
        edges = self.edges(run)
        checksums = self._checksums[file.path.name][place : place + len(run)].tolist()
        damaged = run.start
        for _ in range(_TRIES):
            content = self._folder.read(file.path.name, edges[0], edges[-1] - edges[0])
            with self._counting:
                self.fetched += len(content)
            records = [content[a - edges[0] : b - edges[0]] for a, b in pairwise(edges)]
            right = [
                record_sums.checksum(record) == checksum
                for record, checksum in zip(records, checksums, strict=True)
            ]
            if all(right):
                return records
            damaged = run.start + right.index(False)
        raise self.damaged(damaged, "its checksum is wrong")

    @contextmanager
    def ahead(self, numbers: Iterable[int]) -> Iterator[None]:
        """Fetch records into the cache in the background, in this order, while the block runs."""
        if self._cache is None or self._cache.is_full:
            yield
            return
        cache, stop = self._cache, threading.Event()
        blocks, taking = cache.blocks_of(numbers), threading.Lock()

        def run() -> None:
            while not stop.is_set():
                with taking:
                    block = next(blocks, None)
                if block is None:
                    return
                cache.ensure(block)

        fetchers = ThreadPoolExecutor(FETCHERS, "fetch")
        # An error comes again when a reader asks for the same block.
        for _ in range(FETCHERS):
            fetchers.submit(run)
        try:
            yield
        finally:
            stop.set()
            fetchers.shutdown(cancel_futures=True)

    def listed(self, file: Path) -> list[ListedImage] | None:
        return read_remote_image_list(self._folder, self._shards[file.name])

    def damaged(self, number: int, what: str) -> InputError:
        return InputError(
            f"{self.where(number)}: {what}: the file is damaged; publish the dataset again"
        )

    def where(self, number: int) -> str:
        file, place = self._place(number)
        return f"{self._folder.where(file.path.name)}: record {place} (from 0)"

    def close(self) -> None:
        """Delete the cache; no thread reads any more."""
        if self._cache is not None:
            self._cache.close()


def read_remote_dataset(folder: RemoteFolder) -> Dataset:
    """Read the dataset.json of a published dataset; InputError if there is none."""
    text = folder.read_whole(FILE_NAME)
    try:
        return Dataset.from_json(text.decode(), folder.where(FILE_NAME))
    except UnicodeDecodeError:
        raise InputError(f"{folder.where(FILE_NAME)}: is no UTF-8 text") from None


def read_remote_image_list(folder: RemoteFolder, shard: Shard) -> list[ListedImage] | None:
    """Return the images of a published shard, in its order; None if the dataset has no list.

    InputError if the list is missing or damaged.
    """
    if shard.image_list is None:
        return None
    content = folder.read_whole(shard.image_list)
    return list(image_list.parse(content, folder.where(shard.image_list)))


def open_remote_split(split: Split, format: str, folder: RemoteFolder) -> RemoteRecords:
    """Find the records of a published dataset's split.

    InputError if the lengths and checksums of a shard's records are missing or damaged.
    """

    def open_shard(shard: Shard) -> tuple[Shard, RecordSums]:
        name = shard.record + record_sums.SUFFIX
        try:
            return shard, record_sums.decode(folder.read_whole(name), shard)
        except ValueError as error:
            raise InputError(f"{folder.where(name)}: {error}; publish the dataset again") from None

    with ThreadPoolExecutor(OPENERS) as executor:
        return RemoteRecords(folder, format, list(executor.map(open_shard, split.shards)))
