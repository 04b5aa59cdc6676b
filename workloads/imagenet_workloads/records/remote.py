"""The records of a published dataset: in a bucket, or on a server that knows ranges of bytes.

Each record is compared with its checksum (`record_sums`) when it arrives. With a cache (`cache`)
each record is fetched once, without one in every epoch.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from imagenet_workloads.clients.folders import RemoteFolder
from imagenet_workloads.dataset import FILE_NAME, Dataset, Shard, Split
from imagenet_workloads.errors import InputError
from imagenet_workloads.records import format_named, record_sums
from imagenet_workloads.records.cache import BlockCache
from imagenet_workloads.records.record_sums import RecordSums
from imagenet_workloads.records.split import (
    OPENERS,
    RecordFile,
    Records,
)

# Requests for blocks that the epoch needs later. Readers fetch what they need at once themselves.
FETCHERS = 16
# Of a block: it is one request.
BLOCK_BYTES = 4 << 20
# A record that arrives damaged is fetched once more: the network may have damaged it.
_TRIES = 2


class RemoteRecords(Records):
    """The records of a split; any thread may read.

    Attributes:
        fetched: bytes of records that were read from the folder.
    """

    def __init__(
        self, folder: RemoteFolder, format: str, shards: Sequence[tuple[Shard, RecordSums]]
    ) -> None:
        """Take the shards in packed order."""
        kind = format_named(format)
        super().__init__(
            [RecordFile(Path(shard.record), kind, sums.edges) for shard, sums in shards]
        )
        self._folder = folder
        self._checksums = {shard.record: sums.checksums for shard, sums in shards}
        self._cache: BlockCache | None = None
        self._counting = threading.Lock()
        self.fetched = 0

    def keep(self, cache: Path, blocks: Sequence[range]) -> None:
        """Keep the records of these `blocks` in a new file from now on.

        Raises:
            WorkloadError: the file cannot be created.
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
        """Return the bytes of a block."""
        edges = self.edges(block)
        return edges[-1] - edges[0]

    def read(self, run: range) -> list[bytes]:
        """Read one of the `runs`, and return its records.

        Raises:
            InputError: a record is damaged.
            WorkloadError: the server cannot be reached, or the cache is full.
        """
        if self._cache is None:
            return self.fetch(run)
        return self._cache.read(run)

    def fill(self, run: range, memory: memoryview) -> None:
        """Read one of the `runs` into memory of its length; errors are those of `read`."""
        memory[:] = b"".join(self.read(run))

    def fetch(self, run: range) -> list[bytes]:
        """Read one of the `runs` from the folder and verify its records.

        Raises:
            InputError: a record is damaged.
            WorkloadError: the server cannot be reached.
        """
        file, place = self._place(run.start)
        edges = self.edges(run)
        checksums = self._checksums[file.path.name][place : place + len(run)].tolist()
        damaged = run.start
        for _ in range(_TRIES):
            content = self._read(file, edges[0], edges[-1] - edges[0])
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

    def damaged(self, number: int, what: str) -> InputError:
        """Return the error for a damaged record; the caller raises it."""
        return InputError(
            f"{self.where(number)}: {what}: the file is damaged; publish the dataset again"
        )

    def where(self, number: int) -> str:
        """Return the file of a record, and its place there."""
        file, place = self._place(number)
        return f"{self._folder.where(file.path.name)}: record {place} (from 0)"

    def close(self) -> None:
        """Delete the cache; no thread reads any more."""
        if self._cache is not None:
            self._cache.close()

    def _read(self, file: RecordFile, begin: int, length: int) -> bytes:
        content = self._folder.read(file.path.name, begin, length)
        with self._counting:
            self.fetched += len(content)
        return content


def read_remote_dataset(folder: RemoteFolder) -> Dataset:
    """Read the dataset.json of a published dataset.

    Raises:
        InputError: there is none, or it is wrong.
        WorkloadError: the server cannot be reached.
    """
    text = folder.read_whole(FILE_NAME)
    try:
        return Dataset.from_json(text.decode(), folder.where(FILE_NAME))
    except UnicodeDecodeError:
        raise InputError(f"{folder.where(FILE_NAME)}: is no UTF-8 text") from None


def open_remote_split(split: Split, format: str, folder: RemoteFolder) -> RemoteRecords:
    """Find the records of a published dataset's split.

    Raises:
        InputError: the lengths and checksums of a shard's records are missing or damaged.
        WorkloadError: the server cannot be reached.
    """

    def open_shard(shard: Shard) -> tuple[Shard, RecordSums]:
        name = shard.record + record_sums.SUFFIX
        try:
            return shard, record_sums.decode(folder.read_whole(name), shard)
        except ValueError as error:
            raise InputError(f"{folder.where(name)}: {error}; publish the dataset again") from None

    with ThreadPoolExecutor(OPENERS) as executor:
        return RemoteRecords(folder, format, list(executor.map(open_shard, split.shards)))
