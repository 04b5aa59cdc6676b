"""Receipts of checkpoints: what a training had computed at a position, as SHA-256.

A receipt has the checksums of weights, optimizer, BatchNorm's statistics and random state
(docs/exactness.md). The random state is a seed and a number of updates. Each checkpoint holds the
receipts before its own, so that they form a chain over all attempts. result.json has the chain.

    receipts.json       in a checkpoint: random state, command line, and the receipts before it
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagenet_workloads.checkpoint.manifest import LENGTH_FILE, CheckpointManifest, Position
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

FILE_NAME = "receipts.json"
# With a checkpoint every minute, those of 16 hours.
MOST = 1000
# MXNet numbers nameless layers; the others have what a training was told, not what it computed.
_NOT_COMPUTED = frozenset({FILE_NAME, LENGTH_FILE, "symbol.json"})


@dataclass(frozen=True)
class Receipt:
    """The receipt of one checkpoint.

    Attributes:
        position: in the training.
        attempt: that wrote the checkpoint.
        files: the hex SHA-256 of each file with something computed.
        random: the hex SHA-256 of the random state.
    """

    position: Position
    attempt: int
    files: Mapping[str, str]
    random: str

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "epoch": self.position.epoch,
            "batch": self.position.batch,
            "attempt": self.attempt,
            "files": dict(self.files),
            "random": self.random,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Receipt":
        """Read what `document` returned; KeyError, TypeError or ValueError if it is none."""
        return cls(
            Position(int(document["epoch"]), int(document["batch"])),
            int(document["attempt"]),
            {str(name): str(sha256) for name, sha256 in document["files"].items()},
            str(document["random"]),
        )

    @classmethod
    def of(cls, folder: Path) -> "Receipt":
        """Return the receipt of a complete checkpoint.

        Raises:
            InputError: it has none, or is damaged.
        """
        manifest = CheckpointManifest.read(folder)
        if FILE_NAME not in manifest.files:
            raise InputError(f"{folder}: has no {FILE_NAME}; an older version wrote it")
        state = Fields.read(folder / FILE_NAME).object("random").values
        canonical = json.dumps(state, sort_keys=True, separators=(",", ":"))
        return cls(
            manifest.position,
            manifest.attempt,
            {
                name: file.sha256
                for name, file in sorted(manifest.files.items())
                if name not in _NOT_COMPUTED
            },
            hashlib.sha256(canonical.encode()).hexdigest(),
        )


@dataclass
class Receipts:
    """The chain of a training, which rank 0 keeps.

    Attributes:
        seed: of all random numbers.
        accumulation_steps: batches of an update.
        arguments: of the command line, for `imagenet-verify`.
        workers: of this attempt.
        chain: the receipts so far.
    """

    seed: int
    accumulation_steps: int
    arguments: Sequence[str]
    workers: int
    chain: list[Receipt] = field(default_factory=list)

    def go_on_from(self, folder: Path | None) -> None:
        """Take the chain of the checkpoint that training resumes from, if it has one."""
        if folder is not None and (folder / FILE_NAME).exists():
            self.chain = [*earlier(folder), Receipt.of(folder)]

    def write(self, folder: Path, position: Position, batches_per_epoch: int) -> None:
        """Write the file into a checkpoint that is not complete yet."""
        done = position.epoch * batches_per_epoch + position.batch
        document = {
            "random": {"seed": self.seed, "updates": done // self.accumulation_steps},
            "arguments": list(self.arguments),
            "workers": self.workers,
            "earlier": [receipt.document() for receipt in self.chain],
        }
        (folder / FILE_NAME).write_text(json.dumps(document, indent=1) + "\n")

    def add(self, folder: Path) -> None:
        """Add the receipt of a complete checkpoint."""
        receipt = Receipt.of(folder)
        # A checkpoint after a lost one has the same position, or an earlier one.
        kept = [one for one in self.chain if one.position < receipt.position]
        self.chain = [*kept, receipt][-MOST:]


def earlier(folder: Path) -> list[Receipt]:
    """Return the receipts before that of a checkpoint.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / FILE_NAME
    try:
        return [Receipt.read(one) for one in json.loads(path.read_bytes())["earlier"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: holds no receipts: {error}") from error
