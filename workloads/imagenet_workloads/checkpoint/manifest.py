"""A checkpoint's manifest.json: its job, its position, and the checksums of its files.

It is written after all other files, and then the folder is renamed into place. So a folder is a
complete checkpoint exactly if it has a manifest with valid checksums.
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
COMPILED_FILE = "compiled.json"
"""Whether PyTorch's compiled code trained what a checkpoint holds."""
VERSION = 1


@dataclass(frozen=True)
class Identity:
    """The training of a checkpoint; a checkpoint of another one is not resumed.

    Attributes:
        job_uid: The UID of the ImageNetJob.
        spec_hash: The hex SHA-256 of the training's fields.
    """

    job_uid: str
    spec_hash: str


@dataclass(frozen=True, order=True)
class Position:
    """A position in a training.

    Attributes:
        epoch: The number of finished epochs.
        batch: The number of finished batches of the next epoch, on each worker.
    """

    epoch: int
    batch: int

    @property
    def name(self) -> str:
        """The checkpoint folder's name, such as `epoch-0003-batch-00000000`."""
        return f"epoch-{self.epoch:04}-batch-{self.batch:08}"


@dataclass(frozen=True)
class FileSum:
    """The length in bytes and the hex SHA-256 of a file."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read a file and compute both."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(bytes=file.tell(), sha256=digest)


@dataclass(frozen=True)
class CheckpointManifest:
    """The content of manifest.json.

    Attributes:
        identity: The training that wrote it.
        attempt: The attempt that wrote it.
        position: The position in the training.
        files: Every file but the manifest, by path in the folder.
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
        """Return the manifest of a folder's files; call `worked` after each."""
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = FileSum.of(path)
                worked()
        return cls(identity=identity, attempt=attempt, position=position, files=files)

    def to_json(self) -> str:
        """Return the text of manifest.json."""
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
        """Read a checkpoint folder's manifest.

        Raises:
            InputError: There is none, or it is damaged or of another version.
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
        """Verify every file of the checkpoint; call `worked` after each.

        Raises:
            InputError: A file is missing, unreadable or changed; the message names it.
        """
        for name, expected in self.files.items():
            path = folder / name
            try:
                # The length first: it detects a truncated file without reading gigabytes.
                length = path.stat().st_size
                if length != expected.bytes:
                    raise InputError(f"{path}: has {length} bytes, not {expected.bytes}")
                if FileSum.of(path) != expected:
                    raise InputError(f"{path}: its SHA-256 is not that of the manifest")
            except OSError as error:
                raise InputError(f"{path}: cannot be read: {error.strerror}") from error
            worked()


def _read_file_sum(files: Fields, name: str) -> FileSum:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise files.wrong(name, "must be a path within the checkpoint")
    file = files.object(name)
    return FileSum(bytes=file.integer("bytes"), sha256=file.text("sha256"))


def write_batches_per_epoch(
    folder: Path, batches_per_epoch: int, images: int | None = None
) -> None:
    """Write the number of batches of an epoch.

    It depends on the batch size: batch 700 of 5004 is before batch 620 of 626.

    Args:
        folder: of the checkpoint.
        batches_per_epoch: on each worker.
        images: of the next epoch that all workers have finished, if their order is that of
            `data.order`: the position of the first missing one.
    """
    document = {"batchesPerEpoch": batches_per_epoch}
    if images is not None:
        document["images"] = images
    (folder / LENGTH_FILE).write_text(json.dumps(document))


def read_batches_per_epoch(folder: Path) -> int:
    """Return the number of batches of an epoch when the checkpoint was written.

    Raises:
        InputError: The file is missing or damaged.
    """
    return Fields.read(folder / LENGTH_FILE).integer("batchesPerEpoch", minimum=1)


def read_images(folder: Path) -> int | None:
    """Return the images of the next epoch that were finished; None without an order.

    Raises:
        InputError: The file is missing or damaged.
    """
    fields = Fields.read(folder / LENGTH_FILE)
    return fields.integer("images") if fields.has("images") else None
