"""The ledger of an attempt: which records each worker has trained, and at which positions.

The loop records a batch after its step, and a thread writes it soon. An identity comes from the
record's own bytes (`records`), never from its position: so what was read can differ
from what should have been, and `ledger_check` finds that.

    attempts/rN/ledger/epoch-0003-image-00000224-worker-00000-of-00002

A file is of one worker from one resume point on. It has a line of JSON, then a block for each
batch: a header, and the identities, compressed. The n identities of a block are those of the
worker's next n positions from `first` on. A block that was cut off by a kill is ignored.
"""

import json
import os
import struct
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads import files
from imagenet_workloads.data.order import Integers, worker_positions
from imagenet_workloads.data.worker_data import RecordsRead
from imagenet_workloads.errors import InputError, StorageError, output_error

FOLDER = "ledger"
VERSION = 1
WRITE_SECONDS = 0.25
# CRC-32 of what follows it; epoch; first position of the batch; identities; compressed bytes.
_BLOCK = struct.Struct("<IIQII")

Identities = NDArray[np.uint64]


@dataclass(frozen=True, order=True)
class Start:
    """Where an attempt goes on: images of an epoch that all workers have finished."""

    epoch: int
    image: int


@dataclass(frozen=True)
class LedgerHead:
    """The first line of a file.

    Attributes:
        training: the hash that identifies the training, as in its checkpoints.
        start: where the attempt goes on.
        worker: from 0.
        workers: how many there are.
        images: of the split.
        seed: of the order.
    """

    training: str
    start: Start
    worker: int
    workers: int
    images: int
    seed: int

    @property
    def file_name(self) -> str:
        """The name of the file in the attempt's folder of ledgers."""
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
        """Return the line."""
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
        """Read the line; ValueError or KeyError if it is none of this version."""
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
        """Begin the file.

        Args:
            folder: the attempt's.
            head: the first line.
            at_once: whether each batch is written with its step, as checkpoints do not wait for
                this worker.

        Raises:
            StorageError: it cannot be written.
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

        Raises:
            StorageError: it, or a batch before it, cannot be written.
        """
        if read is not None and len(read.identities):
            self._recorded.append(read)
        if self._at_once or self._failed is not None:
            self._write()

    def sync(self) -> None:
        """Return when the disk has all batches: before a checkpoint that counts on them.

        Raises:
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
                    self._file.write(_block(self._recorded.popleft()))
                self._file.flush()
            except OSError as error:
                self._failed = self._error(error)
                raise self._failed from error
            except Exception as error:
                self._failed = error
                raise

    def _error(self, error: OSError) -> StorageError:
        return output_error(f"cannot write the ledger {self._path}", error)


def _block(read: RecordsRead) -> bytes:
    # The first bytes of all identities, then the second ones, …: high bytes are mostly equal.
    planes = read.identities.astype("<u8").view(np.uint8).reshape(-1, 8).T
    content = zlib.compress(planes.tobytes(), 1)
    head = _BLOCK.pack(0, read.epoch, read.first, len(read.identities), len(content))
    checksum = zlib.crc32(content, zlib.crc32(head[4:]))
    return struct.pack("<I", checksum) + head[4:] + content


class Block(NamedTuple):
    """A trained batch of one worker.

    Attributes:
        epoch: from 0.
        positions: (images,), where its images are in the epoch.
        identities: (images,), of the records that were read there.
    """

    epoch: int
    positions: Integers
    identities: Identities


@dataclass(frozen=True)
class LedgerFile:
    """A file that was written.

    Attributes:
        path: the file.
        attempt: the N of attempts/rN.
        head: its first line.
    """

    path: Path
    attempt: int
    head: LedgerHead

    @classmethod
    def open(cls, path: Path, attempt: int) -> "LedgerFile | None":
        """Read the first line; None if a kill has cut it off.

        Raises:
            InputError: the file is no ledger, or cannot be read.
        """
        try:
            with path.open("rb") as file:
                line = file.readline()
            return cls(path, attempt, LedgerHead.parse(line)) if line.endswith(b"\n") else None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a ledger of this version: {error}") from None

    def blocks(self) -> Iterator[Block]:
        """Yield the batches in the order of training.

        Raises:
            InputError: a batch before the last one is damaged, or the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
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
