"""Finds the records of a split: in which file each one lies, and from which byte to which.

A record is known by its number in packed order, from 0. Its offset comes from the .idx file of its
file. If a file has no index, the headers of all its records are read once. Offsets of a published
dataset come from its `record_sums`.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads import files
from imagenet_workloads.dataset import Shard, Split, damaged, files_named
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.records import FORMATS, format_named, recordio, tfrecord
from imagenet_workloads.records.format import Format, LabelledImage, Read
from imagenet_workloads.records.image_list import ListedImage, read_image_list

OPENERS = 8
# Above it, a file is opened for each read: a process may open 1,024 files, and has others.
MOST_OPEN_FILES = 256


@dataclass(frozen=True)
class RecordFile:
    """A file of records.

    `edges` are (records + 1,): where each record begins, and the end of the last one.
    """

    path: Path
    format: Format
    edges: NDArray[np.int64]


class Records:
    """The records of a split; any thread may read.

    `read` and `fill` raise a WorkloadError if the file cannot be read, and all an InputError if a
    record is damaged.

    Attributes:
        count: how many there are.
        bytes: of all of them.
        opens: files opened so far.
        reads: reads so far, of `bytes_read` bytes.
    """

    def __init__(self, files: Sequence[RecordFile]) -> None:
        self._files = tuple(files)
        *firsts, self.count = accumulate((len(file.edges) - 1 for file in files), initial=0)
        # The number of each file's first record.
        self._firsts = firsts
        self._is_first = frozenset(firsts)
        self.bytes = sum(int(file.edges[-1]) for file in files)
        self._open: dict[Path, int] = {}
        self._lock = threading.Lock()
        self.opens = self.reads = self.bytes_read = 0

    def size(self, records: Iterable[int]) -> int:
        size = 0
        for number in records:
            file, place = self._place(number)
            size += int(file.edges[place + 1] - file.edges[place])
        return size

    def runs(self, records: Sequence[int]) -> list[range]:
        """Divide ascending records into runs that one read can have: neighbours in one file."""
        runs: list[range] = []
        for number in records:
            if runs and runs[-1].stop == number and number not in self._is_first:
                runs[-1] = range(runs[-1].start, number + 1)
            else:
                runs.append(range(number, number + 1))
        return runs

    def read(self, run: range) -> list[bytes]:
        """Read one of the `runs`, and return its records."""
        edges = self.edges(run)
        content = self._read(self._place(run.start)[0], edges[0], edges[-1] - edges[0])
        return [content[a - edges[0] : b - edges[0]] for a, b in pairwise(edges)]

    def fill(self, run: range, memory: memoryview) -> None:
        file, place = self._place(run.start)
        begin = int(file.edges[place])
        with self._opened(file) as descriptor:
            filled = 0
            while filled < len(memory) and (
                part := os.preadv(descriptor, [memory[filled:]], begin + filled)
            ):
                filled += part
        self._count(filled)
        if filled != len(memory):
            raise damaged(file.path, f"it ends before byte {begin + len(memory)}")

    def edges(self, run: range) -> list[int]:
        """Return where each record of a run begins in its file, and the end of the last one."""
        file, place = self._place(run.start)
        edges: list[int] = file.edges[place : place + len(run) + 1].tolist()
        return edges

    @property
    def largest(self) -> int:
        lengths = (np.diff(file.edges) for file in self._files if len(file.edges) > 1)
        return max((int(one.max()) for one in lengths), default=0)

    def format(self, number: int) -> int:
        """Return the number of a record's format in FORMATS."""
        return FORMATS.index(self._place(number)[0].format)

    @contextmanager
    def ahead(self, numbers: Iterable[int]) -> Iterator[None]:
        """Fetch records in the background, in this order, while the block runs.

        Local files need nothing.
        """
        del numbers
        yield

    def parse(self, number: int, record: bytes) -> LabelledImage:
        file, _ = self._place(number)
        try:
            return file.format.parse(record)
        except ValueError as error:
            raise self.damaged(number, str(error)) from None

    def identities(self) -> NDArray[np.uint64]:
        found = np.zeros(self.count, np.uint64)
        for number in range(self.count):
            found[number] = self._of_head(number, self._place(number)[0].format.read_identity)
        return found

    def label(self, number: int) -> int:
        return self._of_head(number, self._place(number)[0].format.read_label)

    def _of_head(self, number: int, found: Callable[[Read, int], int]) -> int:
        file, place = self._place(number)
        begin, end = int(file.edges[place]), int(file.edges[place + 1])
        try:
            return found(
                lambda offset, length: self._read(file, begin + offset, length), end - begin
            )
        except ValueError as error:
            raise self.damaged(number, str(error)) from None

    def damaged(self, number: int, what: str) -> InputError:
        """Return the error for a damaged record; the caller raises it."""
        file, place = self._place(number)
        return damaged(file.path, f"record {place} (from 0): {what}")

    def file_of(self, number: int) -> tuple[Path, int]:
        """Return the file of a record, of a remote dataset its name alone, and its number there."""
        file, place = self._place(number)
        return file.path, place

    def listed(self, file: Path) -> list[ListedImage] | None:
        """Return the images of a file of records, in its order; None if the dataset has no list.

        WorkloadError if the list cannot be read, or is damaged.
        """
        return read_image_list(file)

    def where(self, number: int) -> str:
        file, place = self._place(number)
        return f"{file.path}: record {place} (from 0)"

    def close(self) -> None:
        """Close the files; no thread reads any more."""
        with self._lock:
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    def _place(self, number: int) -> tuple[RecordFile, int]:
        file = bisect_right(self._firsts, number) - 1
        return self._files[file], number - self._firsts[file]

    def _read(self, file: RecordFile, begin: int, length: int) -> bytes:
        parts: list[bytes] = []
        with self._opened(file) as descriptor:
            at, end = begin, begin + length
            # Fewer bytes than asked for may come before the end of the file.
            while at < end and (part := os.pread(descriptor, end - at, at)):
                parts.append(part)
                at += len(part)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        self._count(len(content))
        if len(content) != length:
            raise damaged(file.path, f"it ends before byte {begin + length}")
        return content

    def _count(self, length: int) -> None:
        with self._lock:
            self.reads += 1
            self.bytes_read += length

    @contextmanager
    def _opened(self, file: RecordFile) -> Iterator[int]:
        try:
            with self._lock:
                descriptor = self._open.get(file.path)
                is_kept = descriptor is not None
                if descriptor is None:
                    descriptor = files.open_file(file.path)
                    self.opens += 1
                    is_kept = len(self._open) < MOST_OPEN_FILES
                    if is_kept:
                        self._open[file.path] = descriptor
            try:
                yield descriptor
            finally:
                if not is_kept:
                    os.close(descriptor)
        except OSError as error:
            raise WorkloadError(f"{file.path}: cannot be read: {error.strerror}") from error


def open_split(split: Split, format: str, folder: Path) -> Records:
    """Find the records of a sealed dataset's split.

    InputError if a file is missing or damaged, or an index does not fit it.
    """
    kind = format_named(format)

    def open_shard(shard: Shard) -> RecordFile:
        index = None if shard.index is None else folder / shard.index
        file = _open(folder / shard.record, index, kind)
        if len(file.edges) - 1 != shard.records:
            raise damaged(file.path, f"has {len(file.edges) - 1} records, not {shard.records}")
        return file

    # Several at a time: without an index, reading each header may take as long as a seek.
    with ThreadPoolExecutor(OPENERS) as executor:
        return Records(list(executor.map(open_shard, split.shards)))


def open_paths(records: str, indexes: str = "") -> Records:
    """Find the records of files named on the command line, `a.rec;b.rec` or TFRecord files.

    Without `indexes`, the .idx beside each file is used if there is one. InputError if a file is
    missing or damaged, or there are more or fewer indexes than records.
    """
    paths = files_named(records)
    beside = [Path(name) for name in indexes.split(";") if name]
    if not beside:
        beside = [path.with_suffix(".idx") for path in paths]
    if len(paths) != len(beside):
        raise InputError(f"{len(paths)} record files, but {len(beside)} index files: {indexes}")
    return Records([_open(path, index, None) for path, index in zip(paths, beside, strict=True)])


def _open(path: Path, index: Path | None, format: Format | None) -> RecordFile:
    try:
        # Without a buffer: it would read 8 KiB for each header.
        with os.fdopen(files.open_file(path), "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            size = os.fstat(file.fileno()).st_size
            if format is None:
                format = recordio.FORMAT if recordio.is_record_io(file) else tfrecord.FORMAT
            if index is not None and index.exists():
                begins = read_index(index.name, index.read_bytes())
            else:
                begins = np.fromiter(format.offsets(file), np.int64)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise damaged(path, str(error)) from None
    if len(begins) and (begins[0] != 0 or begins[-1] >= size):
        raise damaged(path, "its index is of another file, or it is cut off")
    return RecordFile(path, format, np.append(begins, size))


def read_index(name: str, content: bytes) -> NDArray[np.int64]:
    """Return the offsets of an .idx file, `key<TAB>offset` a line, sorted.

    ValueError, with its name, if it is no such file.
    """
    try:
        numbers = np.array(content.split(), np.bytes_).astype(np.int64).reshape(-1, 2)
    except ValueError:
        raise ValueError(f"{name} is not KEY<TAB>OFFSET in each line") from None
    offsets: NDArray[np.int64] = np.sort(numbers[:, 1])
    return offsets
