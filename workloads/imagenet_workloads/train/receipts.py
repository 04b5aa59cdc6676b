"""Receipts of checkpoints: what a training had computed at a position, as SHA-256.

A receipt has the checksums of weights, optimizer, BatchNorm's statistics and random state
(docs/exactness.md). The random state is a seed and a number of updates. When training is
LATER_STEPS updates past a checkpoint, the receipt of the state there joins it. Each checkpoint
holds the receipts before its own, so that they form a chain over all attempts. result.json has the
chain.

    receipts.json       in a checkpoint: random state, launch, and the receipts before it
    receipts.json       in an attempt's folder: its launch, and the chain so far
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imagenet_spec import volume_files
from imagenet_spec.names import TRAINING_FILE
from imagenet_workloads.checkpoint import (
    COMPILED_FILE,
    CheckpointManifest,
    Position,
    read_batches_per_epoch,
)
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

FILE_NAME = "receipts.json"
# With a checkpoint every minute, those of 16 hours.
MOST = 1000
# Updates from a checkpoint to the second receipt.
LATER_STEPS = 10
# MXNet numbers nameless layers; the others have what a training was told, not what it computed.
_NOT_COMPUTED = frozenset({FILE_NAME, TRAINING_FILE, COMPILED_FILE, "symbol.json"})

State = Mapping[str, Mapping[str, NDArray[Any]]]
"""What a training has computed: arrays by part (weights, optimizer, …) and name."""


@dataclass(frozen=True)
class LaterReceipt:
    """The receipt of the state so many updates after a checkpoint: the hex SHA-256 of each part.

    `attempt` trained them.
    """

    steps: int
    position: Position
    attempt: int
    state: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "epoch": self.position.epoch,
            "batch": self.position.batch,
            "attempt": self.attempt,
            "state": dict(self.state),
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "LaterReceipt":
        """Read a `document`; KeyError, TypeError or ValueError if it is none."""
        return cls(
            int(document["steps"]),
            Position(int(document["epoch"]), int(document["batch"])),
            int(document["attempt"]),
            {str(part): str(sha256) for part, sha256 in document["state"].items()},
        )


@dataclass(frozen=True)
class Receipt:
    """The receipt of one checkpoint, with the hex SHA-256 of its files and of its random state.

    Attributes:
        attempt: that wrote the checkpoint.
        files: those with something computed.
        later: of the state LATER_STEPS later; None if training has not got there.
    """

    position: Position
    attempt: int
    files: Mapping[str, str]
    random: str
    later: LaterReceipt | None = None

    def document(self) -> dict[str, Any]:
        document = {
            "epoch": self.position.epoch,
            "batch": self.position.batch,
            "attempt": self.attempt,
            "files": dict(self.files),
            "random": self.random,
        }
        return document if self.later is None else {**document, "later": self.later.document()}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Receipt":
        """Read a `document`; KeyError, TypeError or ValueError if it is none."""
        return cls(
            Position(int(document["epoch"]), int(document["batch"])),
            int(document["attempt"]),
            {str(name): str(sha256) for name, sha256 in document["files"].items()},
            str(document["random"]),
            LaterReceipt.read(document["later"]) if "later" in document else None,
        )

    @classmethod
    def of(cls, folder: Path) -> "Receipt":
        """Make the receipt of a complete checkpoint."""
        manifest = CheckpointManifest.read(folder)
        if FILE_NAME not in manifest.files:
            raise InputError(f"{folder}: has no {FILE_NAME}; an older version wrote it")
        random = Fields.read(folder / FILE_NAME).object("random").values
        return cls(
            manifest.position,
            manifest.attempt,
            {
                name: file.sha256
                for name, file in sorted(manifest.files.items())
                if name not in _NOT_COMPUTED
            },
            _sha256_of_random(random),
        )


@dataclass(frozen=True)
class Launch:
    """How training was started, for `imagenet-verify`.

    Attributes:
        arguments: of `imagenet-train`.
        threads: OMP_NUM_THREADS, on which the bits of sums depend; None if it was not set.
        servers: DMLC_NUM_SERVER; 0 without servers.
    """

    arguments: Sequence[str]
    workers: int
    threads: str | None = None
    servers: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "arguments": list(self.arguments),
            "workers": self.workers,
            "threads": self.threads,
            "servers": self.servers,
        }

    @classmethod
    def read(cls, path: Path) -> "Launch":
        """Read it from a receipts.json; that of an older version has no threads and servers."""
        fields = Fields.read(path)
        threads = fields.text("threads") if fields.has("threads") else None
        servers = fields.integer("servers") if fields.has("servers") else 0
        return cls(fields.texts("arguments"), fields.integer("workers"), threads, servers)


@dataclass
class Receipts:
    """The chain of a training, which rank 0 keeps; all ranks know when a later receipt is due."""

    seed: int
    accumulation_steps: int
    launch: Launch
    attempt: int
    batches_per_epoch: int
    chain: list[Receipt] = field(default_factory=list)
    # Checkpoint → the batches, from the first epoch on, after which its later receipt is due.
    _due: dict[Position, int] = field(default_factory=dict, init=False)

    def go_on_from(self, folder: Path, start: Position) -> None:
        """Take the chain of the checkpoint that training resumes from, if it has one.

        `start` is where training goes on, in this attempt's batches.
        """
        if not (folder / FILE_NAME).exists():
            return
        newest = Receipt.of(folder)
        self.chain = [*earlier(folder), newest]
        self.expect_later(newest.position, start)
        was = Launch.read(folder / FILE_NAME).workers, read_batches_per_epoch(folder)
        if was != (self.launch.workers, self.batches_per_epoch):
            # What follows the checkpoints before this one was not trained by one command line.
            return
        for receipt in self.chain:
            if receipt.later is None and receipt.attempt == newest.attempt:
                self.expect_later(receipt.position, receipt.position)
        trained = self._done(start)
        self._due = {checkpoint: due for checkpoint, due in self._due.items() if due > trained}

    def expect_later(self, checkpoint: Position, start: Position) -> None:
        """Have the receipt LATER_STEPS after a checkpoint written when training gets there.

        `start` is the checkpoint's position in this attempt's batches.
        """
        self._due[checkpoint] = self._done(start) + LATER_STEPS * self.accumulation_steps

    def due_at(self, position: Position) -> list[Position]:
        """Return the checkpoints whose later receipts are due at a position, and forget them."""
        done = self._done(position)
        found = [checkpoint for checkpoint, due in self._due.items() if due == done]
        for checkpoint in found:
            del self._due[checkpoint]
        return found

    def write(self, folder: Path, position: Position) -> None:
        """Write the file into a checkpoint that is not complete yet."""
        document = {
            "random": self._random(position),
            **self.launch.document(),
            "earlier": [receipt.document() for receipt in self.chain],
        }
        (folder / FILE_NAME).write_text(json.dumps(document, indent=1) + "\n")

    def add(self, folder: Path) -> None:
        receipt = Receipt.of(folder)
        # A checkpoint after a lost one has the same position, or an earlier one.
        kept = [one for one in self.chain if one.position < receipt.position]
        self.chain = [*kept, receipt][-MOST:]

    def add_later(self, checkpoints: Sequence[Position], position: Position, state: State) -> None:
        sums = {part: _sha256_of_arrays(arrays) for part, arrays in state.items()}
        sums["random"] = _sha256_of_random(self._random(position))
        later = LaterReceipt(LATER_STEPS, position, self.attempt, sums)
        self.chain = [
            replace(one, later=later) if one.position in checkpoints else one for one in self.chain
        ]

    def to_json(self) -> str:
        document = {
            **self.launch.document(),
            "receipts": [receipt.document() for receipt in self.chain],
        }
        return json.dumps(document, indent=1) + "\n"

    def _done(self, position: Position) -> int:
        return position.epoch * self.batches_per_epoch + position.batch

    def _random(self, position: Position) -> Mapping[str, int]:
        return {"seed": self.seed, "updates": self._done(position) // self.accumulation_steps}


def earlier(folder: Path) -> list[Receipt]:
    """Read the receipts before that of a checkpoint."""
    return read_chain(folder / FILE_NAME, "earlier")


def read_chain(path: Path, name: str) -> list[Receipt]:
    """Read the receipts in a field of a JSON file."""
    try:
        return [Receipt.read(one) for one in json.loads(volume_files.read_bytes(path))[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: holds no receipts of checkpoints: {error}") from error


def _sha256_of_random(state: Mapping[str, Any]) -> str:
    canonical = json.dumps(state, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _sha256_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Hash arrays with their names, types and shapes."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
