"""The ledger of an attempt: which records each worker has trained, and at which positions.

The loop records a batch after its step, and a thread writes it soon. An identity comes from the
record's own bytes (`records`), never from its position: so what was read can differ
from what should have been, and `check` finds that.

    attempts/rN/ledger/epoch-0003-image-00000224-worker-00000-of-00002

A file is of one worker from one resume point on. It has a line of JSON, then a block for each
batch: a header, and the identities, compressed. The n identities of a block are those of the
worker's next n positions from `first` on. A block that was cut off by a kill is ignored.

`check` wants every record of each epoch once over all attempts, at its place in the order. Images
after the resume point of a later attempt were lost with their steps: that attempt has trained them
again. They are counted, and not compared.
"""

import json
import os
import struct
import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from imagenet_spec import volume_files
from imagenet_spec.names import EVERY_ATTEMPT
from imagenet_workloads import files
from imagenet_workloads.data.order import Integers, Order, worker_positions
from imagenet_workloads.data.worker_data import RecordsRead
from imagenet_workloads.errors import InputError, StorageError, output_error

FOLDER = "ledger"
VERSION = 1
WRITE_SECONDS = 0.25
# CRC-32 of what follows it; epoch; first position of the batch; identities; compressed bytes.
_BLOCK = struct.Struct("<IIQII")

# Of each kind in an epoch; a wrong reader may have as many as there are images.
MOST_MISTAKES = 5

Identities = NDArray[np.uint64]


@dataclass(frozen=True, order=True)
class Start:
    """Where an attempt goes on: images of an epoch that all workers have finished."""

    epoch: int
    image: int


_END = Start(1 << 31, 0)


@dataclass(frozen=True)
class LedgerHead:
    """The first line of a file.

    `training` is the hash that identifies the training, as in its checkpoints. `images` are those
    of the split, and `seed` is that of their order.
    """

    training: str
    start: Start
    worker: int
    workers: int
    images: int
    seed: int

    @property
    def file_name(self) -> str:
        return f"{self._start}-worker-{self.worker:05}-of-{self.workers:05}"

    @property
    def _start(self) -> str:
        return f"epoch-{self.start.epoch:04}-image-{self.start.image:08}"

    def is_replaced(self, name: str) -> bool:
        """Whether a file is of an earlier process that has gone on from the same place.

        Only without the operator a second process writes into an attempt's folder.
        """
        own = f"-worker-{self.worker:05}-of-"
        return name.startswith(self._start) and own in name

    def line(self) -> bytes:
        document = {
            "version": VERSION,
            "training": self.training,
            "epoch": self.start.epoch,
            "image": self.start.image,
            "worker": self.worker,
            "workers": self.workers,
            "images": self.images,
            "seed": self.seed,
        }
        return json.dumps(document).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> "LedgerHead":
        """ValueError or KeyError: the line is none of this version."""
        found: dict[str, Any] = json.loads(line)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}, and this program reads {VERSION}")
        start = Start(int(found["epoch"]), int(found["image"]))
        numbers = (int(found[name]) for name in ("worker", "workers", "images", "seed"))
        return cls(str(found["training"]), start, *numbers)


class Ledger:
    """Writes the file of one worker, in a thread of its own: a step waits for no disk.

    A worker that is killed may lose the last WRITE_SECONDS, which no checkpoint counts. After an
    error nothing more is written: a batch that is missing is never counted by a later checkpoint.
    """

    def __init__(self, folder: Path, head: LedgerHead, at_once: bool = False) -> None:
        """Begin the file in an attempt's folder; StorageError if it cannot be written.

        Each batch is written `at_once`, with its step, if checkpoints do not wait for this worker.
        """
        self._folder, self._at_once = folder / FOLDER, at_once
        files.make_output_folder(self._folder)
        self._path = self._folder / head.file_name
        try:
            for path in self._folder.iterdir():
                if head.is_replaced(path.name):
                    path.unlink(missing_ok=True)
            self._file = self._path.open("wb")
            self._file.write(head.line())
            self._file.flush()
        except OSError as error:
            raise self._error(error) from error
        self._recorded: deque[RecordsRead] = deque()
        self._writing = threading.Lock()
        self._failed: Exception | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write_again, name="ledger", daemon=True)
        self._thread.start()

    def record(self, read: RecordsRead | None) -> None:
        """Note a trained batch, if its records have an order.

        StorageError: it, or a batch before it, cannot be written.
        """
        if read is not None and len(read.identities):
            self._recorded.append(read)
        if self._at_once or self._failed is not None:
            self._write()

    def sync(self) -> None:
        """Return when the disk has all batches: before a checkpoint that counts on them.

        StorageError: they cannot be written.
        """
        self._write()
        try:
            os.fsync(self._file.fileno())
            files.sync(self._folder)
        except OSError as error:
            raise self._error(error) from error

    def close(self) -> None:
        """End the thread, with the last batches if the disk takes them; a sync may follow."""
        self._ends.set()
        self._thread.join()

    def _write_again(self) -> None:
        # `record` and `sync` raise the error.
        with suppress(Exception):
            while not self._ends.wait(WRITE_SECONDS):
                self._write()
            self._write()

    def _write(self) -> None:
        with self._writing:
            if self._failed is not None:
                raise self._failed
            try:
                while self._recorded:
                    read = self._recorded.popleft()
                    # The first bytes of all identities, then the second ones, …: high bytes are
                    # mostly equal.
                    planes = read.identities.astype("<u8").view(np.uint8).reshape(-1, 8).T
                    content = zlib.compress(planes.tobytes(), 1)
                    count = len(read.identities)
                    head = _BLOCK.pack(0, read.epoch, read.first, count, len(content))
                    checksum = zlib.crc32(content, zlib.crc32(head[4:]))
                    self._file.write(struct.pack("<I", checksum) + head[4:] + content)
                self._file.flush()
            except OSError as error:
                self._failed = self._error(error)
                raise self._failed from error
            except Exception as error:
                self._failed = error
                raise

    def _error(self, error: OSError) -> StorageError:
        return output_error(f"cannot write the ledger {self._path}", error)


class Block(NamedTuple):
    """A trained batch of one worker: its images' places in an epoch, and the records read there.

    Both arrays are (images,); epochs count from 0.
    """

    epoch: int
    positions: Integers
    identities: Identities


@dataclass(frozen=True)
class LedgerFile:
    """A file that was written, with its first line."""

    path: Path
    attempt: int
    head: LedgerHead

    @classmethod
    def open(cls, path: Path, attempt: int) -> "LedgerFile | None":
        """Read the first line; None if a kill has cut it off.

        InputError: the file is no ledger, or cannot be read.
        """
        try:
            with volume_files.opened(path) as file:
                line = file.readline()
            return cls(path, attempt, LedgerHead.parse(line)) if line.endswith(b"\n") else None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a ledger of this version: {error}") from None

    def blocks(self) -> Iterator[Block]:
        """Yield the batches in the order of training.

        InputError: a batch before the last one is damaged, or the file cannot be read.
        """
        try:
            with volume_files.opened(self.path) as file:
                file.readline()
                while (block := self._next(file)) is not None:
                    yield block
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror}") from error

    def _next(self, file: BinaryIO) -> Block | None:
        begin = file.tell()
        head = file.read(_BLOCK.size)
        if len(head) < _BLOCK.size:
            return None
        checksum, epoch, first, count, size = _BLOCK.unpack(head)
        content = file.read(size)
        if len(content) < size:
            return None
        if zlib.crc32(content, zlib.crc32(head[4:])) != checksum:
            raise InputError(f"{self.path}: damaged at byte {begin}")
        planes = np.frombuffer(zlib.decompress(content), np.uint8).reshape(8, count)
        identities = np.ascontiguousarray(planes.T).view("<u8").ravel()
        worker, workers = self.head.worker, self.head.workers
        positions = worker_positions(first, first + (count + 1) * workers, worker, workers)[:count]
        return Block(epoch, positions, identities)


@dataclass(frozen=True)
class Run:
    """One process of each worker, from one resume point on; a file for each worker that trained.

    `end` is where the next run has gone on: what this one has trained from there on was lost.
    """

    attempt: int
    start: Start
    end: Start
    files: tuple[LedgerFile, ...]

    @property
    def workers(self) -> int:
        return self.files[0].head.workers


@dataclass(frozen=True)
class EpochReport:
    """What the ledgers say of one epoch, from 0.

    Attributes:
        trained: images whose training was kept.
        redone: images whose training was lost, and was done again.
        mistakes: what is wrong, a sentence each; an epoch in progress lacks its last images.
    """

    epoch: int
    trained: int
    redone: int
    mistakes: tuple[str, ...]


def find_runs(output: Path) -> list[Run]:
    """Find the ledgers of a job's output folder, in the order of the attempts.

    Of several trainings in the folder, only those of the last one are returned. InputError: there
    are none, or one is damaged.
    """
    files = []
    for path in sorted(output.glob(f"{EVERY_ATTEMPT}/{FOLDER}/epoch-*")):
        number = path.parent.parent.name[1:]
        if number.isdecimal() and (file := LedgerFile.open(path, int(number))) is not None:
            files.append(file)
    if not files:
        raise InputError(
            f"{output}: has no ledger (attempts/rN/{FOLDER}); name a job's folder on its output "
            "volume. reader: ImageRecordIter writes none"
        )
    by_run: dict[tuple[int, Start], list[LedgerFile]] = defaultdict(list)
    for file in files:
        by_run[file.attempt, file.head.start].append(file)
    places = sorted(by_run)
    training = by_run[places[-1]][0].head.training
    places = [place for place in places if by_run[place][0].head.training == training]
    ends = [start for _, start in places[1:]]
    return [
        # A run ends where any later one has gone on: an attempt may resume from an older place.
        Run(attempt, start, min([*ends[number:], _END]), tuple(by_run[attempt, start]))
        for number, (attempt, start) in enumerate(places)
    ]


def check(
    runs: Sequence[Run], is_finished: bool, dataset: Identities | None = None
) -> Iterator[EpochReport]:
    """Check the epochs one after the other, over all runs of a training.

    Args:
        runs: all of a training.
        is_finished: whether its last epoch has ended; otherwise it may lack its last images.
        dataset: (records,), the identities of the records in packed order. Without it, a record at
            another one's place is found only if it is not there in every epoch.

    Raises:
        InputError: a file is damaged, or the dataset has another number of records.
    """
    head = runs[0].files[0].head
    if dataset is not None and len(dataset) != head.images:
        raise InputError(f"the dataset has {len(dataset)} records, and the ledger {head.images}")
    order, expected = Order(head.images, head.seed), dataset
    cursors = [_Cursor(run, file) for run in runs for file in run.files]
    number = 0
    while not all(cursor.at_end for cursor in cursors):
        epoch = _Epoch(number, head.images)
        for cursor in cursors:
            cursor.add_to(epoch)
        due = head.images if is_finished else _due(epoch, runs[-1], cursors)
        mistakes = epoch.wrong_times(due)
        positions = np.flatnonzero(epoch.times)
        records, found = order.at(number, positions), epoch.identities[positions]
        if expected is not None:
            mistakes += _wrong_places(positions, found, expected[records])
        if dataset is None:
            mistakes += _twice(found)
        if expected is None and len(positions) == head.images:
            # Later epochs are compared with the first one.
            expected = np.zeros(head.images, np.uint64)
            expected[records] = found
        yield EpochReport(number, len(positions), epoch.redone, tuple(mistakes))
        number += 1


class _Epoch:
    """What an epoch's positions have trained.

    Attributes:
        identities: (images,), of the records.
        times: (images,), how often the training of a position was kept.
        redone: images whose training was lost.
    """

    def __init__(self, number: int, images: int) -> None:
        self.number = number
        self.identities: Identities = np.zeros(images, np.uint64)
        self.times = np.zeros(images, np.int64)
        self.redone = 0

    def wrong_times(self, due: int) -> list[str]:
        """List positions before `due` that were not trained, and all that were trained twice."""
        missing = np.flatnonzero(self.times[:due] == 0)
        often = np.flatnonzero(self.times > 1)
        return [
            *_first(missing.tolist(), lambda place: f"position {place} was not trained"),
            *_first(
                often.tolist(),
                lambda place: f"position {place} was trained {self.times[place]} times",
            ),
        ]


class _Cursor:
    def __init__(self, run: Run, file: LedgerFile) -> None:
        self._end, self.worker = run.end, file.head.worker
        self.run = run
        self._blocks = file.blocks()
        self._next = next(self._blocks, None)
        # The position after the last one that it has trained in an epoch.
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self._next is None

    def add_to(self, epoch: _Epoch) -> None:
        start = self.run.start
        self.position = start.image if start.epoch == epoch.number else 0
        while (block := self._next) is not None and block.epoch <= epoch.number:
            if block.epoch < epoch.number:
                raise InputError(f"a ledger of attempt {self.run.attempt} goes back an epoch")
            places, identities = block.positions, block.identities
            if len(places) and (places[0] < 0 or places[-1] >= len(epoch.times)):
                raise InputError(f"a ledger of attempt {self.run.attempt} has no such position")
            if epoch.number == self._end.epoch:
                kept = places < self._end.image
            else:
                kept = np.full(len(places), epoch.number < self._end.epoch)
            epoch.redone += len(places) - int(kept.sum())
            np.add.at(epoch.times, places[kept], 1)
            epoch.identities[places[kept]] = identities[kept]
            self.position = int(places[-1]) + 1
            self._next = next(self._blocks, None)


def _due(epoch: _Epoch, last: Run, cursors: Sequence[_Cursor]) -> int:
    """Return the position up to which an epoch must have been trained in an unfinished training.

    The ledger of a worker that runs or was killed lacks its newest batches, also if those of others
    are in the next epoch.
    """
    if last.start.epoch > epoch.number:
        return len(epoch.times)
    own = [cursor for cursor in cursors if cursor.run is last]
    if len(own) < last.workers:
        return last.start.image if last.start.epoch == epoch.number else 0
    ended = [cursor.position for cursor in own if cursor.at_end]
    return min(ended, default=len(epoch.times))


def _wrong_places(positions: Integers, found: Identities, expected: Identities) -> list[str]:
    wrong = np.flatnonzero(found != expected)
    return _first(
        wrong.tolist(),
        lambda place: (
            f"position {positions[place]} trained record {found[place]:#x}, "
            f"not {expected[place]:#x}"
        ),
    )


def _twice(found: Identities) -> list[str]:
    values, times = np.unique(found, return_counts=True)
    often = np.flatnonzero(times > 1)
    return _first(
        often.tolist(), lambda place: f"record {values[place]:#x} was trained {times[place]} times"
    )


def _first(places: Sequence[int], sentence: Callable[[int], str]) -> list[str]:
    said = [sentence(place) for place in places[:MOST_MISTAKES]]
    more = len(places) - len(said)
    return said if more <= 0 else [*said, f"and {more} more like the last one"]
