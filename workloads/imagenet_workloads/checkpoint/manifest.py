"""A checkpoint's manifest.json: whose it is, where in the training, and what every file must be.

It is written after all other files of the folder, and the folder takes its place after that. So a
folder with a manifest whose checksums hold is a complete checkpoint; anything else is not one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

FILE_NAME = "manifest.json"
LENGTH_FILE = "training.json"
VERSION = 1


@dataclass(frozen=True)
class Identity:
    """Which training a checkpoint belongs to; another's is never resumed by accident.

    Attributes:
        job_uid: of the ImageNetJob.
        spec_hash: hex SHA-256 of the fields that shape the training.
    """

    job_uid: str
    spec_hash: str


@dataclass(frozen=True, order=True)
class Position:
    """How far a training has come.

    Attributes:
        epoch: epochs that are done.
        batch: batches of the next epoch that are done, on each worker.
    """

    epoch: int
    batch: int

    @property
    def name(self) -> str:
        """The checkpoint folder's name, e.g. `epoch-0003-batch-00000000`."""
        return f"epoch-{self.epoch:04}-batch-{self.batch:08}"


@dataclass(frozen=True)
class FileSum:
    """What a file's content must be: its length in bytes and its hex SHA-256."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Reads the file through."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(bytes=file.tell(), sha256=digest)


@dataclass(frozen=True)
class CheckpointManifest:
    """The content of manifest.json.

    Attributes:
        identity: of the training that wrote it.
        attempt: that wrote it.
        position: of the training.
        files: by path within the folder, every file but the manifest.
    """

    identity: Identity
    attempt: int
    position: Position
    files: Mapping[str, FileSum]

    @classmethod
    def describe(
        cls,
        folder: Path,
        identity: Identity,
        attempt: int,
        position: Position,
        worked: Callable[[], None] = lambda: None,
    ) -> Self:
        """Describes the files of a folder as they are now; calls `worked` after each."""
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = FileSum.of(path)
                worked()
        return cls(identity=identity, attempt=attempt, position=position, files=files)

    def to_json(self) -> str:
        """The text of manifest.json."""
        document = {
            "version": VERSION,
            "identity": {"jobUid": self.identity.job_uid, "specHash": self.identity.spec_hash},
            "attempt": self.attempt,
            "epoch": self.position.epoch,
            "batch": self.position.batch,
            "files": {
                name: {"bytes": file.bytes, "sha256": file.sha256}
                for name, file in sorted(self.files.items())
            },
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads a checkpoint folder's manifest.

        Raises:
            InputError: there is none, or it is damaged or of another version.
        """
        fields = Fields.read(folder / FILE_NAME)
        version = fields.integer("version")
        if version != VERSION:
            raise fields.wrong("version", f"is {version}, and this program reads {VERSION}")
        identity = fields.object("identity")
        files = fields.object("files")
        return cls(
            identity=Identity(identity.text("jobUid"), identity.text("specHash")),
            attempt=fields.integer("attempt"),
            position=Position(fields.integer("epoch"), fields.integer("batch")),
            files={name: _read_file_sum(files, name) for name in files.values},
        )

    def verify(self, folder: Path, worked: Callable[[], None] = lambda: None) -> None:
        """Reads every file of the checkpoint and compares it; calls `worked` after each.

        Raises:
            InputError: a file is missing, unreadable, or not what was written; names the file.
        """
        for name, expected in self.files.items():
            path = folder / name
            try:
                # The length first: it tells a cut-off file without reading gigabytes.
                length = path.stat().st_size
                if length != expected.bytes:
                    raise InputError(f"{path}: has {length} bytes, not {expected.bytes}")
                if FileSum.of(path) != expected:
                    raise InputError(f"{path}: its SHA-256 is not the manifest's")
            except OSError as error:
                raise InputError(f"{path}: cannot be read: {error.strerror}") from error
            worked()


def _read_file_sum(files: Fields, name: str) -> FileSum:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise files.wrong(name, "must be a path within the checkpoint")
    file = files.object(name)
    return FileSum(bytes=file.integer("bytes"), sha256=file.text("sha256"))


def write_batches_per_epoch(folder: Path, batches_per_epoch: int) -> None:
    """Writes how long an epoch is, without which a position says little.

    Another batch size makes epochs of another length: batch 700 of 5004 is less than batch 620 of
    626.
    """
    (folder / LENGTH_FILE).write_text(json.dumps({"batchesPerEpoch": batches_per_epoch}))


def read_batches_per_epoch(folder: Path) -> int:
    """Gives the batches of an epoch when the checkpoint was written.

    Raises:
        InputError: the file is missing or damaged.
    """
    return Fields.read(folder / LENGTH_FILE).integer("batchesPerEpoch", minimum=1)
