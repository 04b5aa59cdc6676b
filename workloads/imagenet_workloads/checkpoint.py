"""Finds, writes and prunes the checkpoints of one job, over its attempts.

    OUTPUT/attempts/r0/checkpoints/epoch-0003-batch-00000000/{manifest.json, …}

The manifest names the training and the SHA-256 of every other file. An InputError says that a file
is missing, damaged or of another version.
An attempt reads the checkpoints of all attempts up to its own, and writes only in its own folder. A
checkpoint is written under a temporary name and then renamed. So it is complete or absent, even
after a crash or power failure; what an attempt leaves incomplete, the next one deletes.

An attempt that lacks room records in its folder how many bytes must be free. Later attempts compare
that, and the size of the newest checkpoint, with the free bytes before they load anything. A file
can be recorded on a full volume, because the incomplete checkpoint is deleted first.
"""

import errno
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Self

from imagenet_spec import volume_files
from imagenet_spec.names import (
    ATTEMPTS_FOLDER,
    CHECKPOINT_FILE,
    CHECKPOINTS_FOLDER,
    LABELS_FILE,
    MODEL_CARD_DATA_FILE,
    MODEL_CARD_FILE,
    TRAINING_FILE,
)
from imagenet_workloads import files
from imagenet_workloads.errors import (
    NO_ROOM,
    InputError,
    StorageError,
    SupersededError,
    VolumeFullError,
    WorkloadError,
    make_room,
)
from imagenet_workloads.fields import Fields

VALIDATIONS = "validations"
COMPILED_FILE = "compiled.json"
"""Whether PyTorch's compiled code trained what a checkpoint holds."""
VERSION = 1
ROOM_FILE = "volume-full.json"

_ATTEMPT = re.compile(r"r(0|[1-9][0-9]*)")
_CHECKPOINT = re.compile(r"epoch-([0-9]{4,})-batch-([0-9]{8,})")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """The training of a checkpoint; a checkpoint of another one is not resumed."""

    job_uid: str
    spec_hash: str


@dataclass(frozen=True, order=True)
class Position:
    """Finished epochs, and finished batches of the next epoch on each worker."""

    epoch: int
    batch: int

    @property
    def name(self) -> str:
        """The folder of its checkpoint, such as `epoch-0003-batch-00000000`."""
        return f"epoch-{self.epoch:04}-batch-{self.batch:08}"


@dataclass(frozen=True)
class FileSum:
    """The length in bytes and the hex SHA-256 of a file."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        with volume_files.opened(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(bytes=file.tell(), sha256=digest)


def read_sums(listed: Fields) -> dict[str, FileSum]:
    """Return the files of a manifest or of result.json, by path in the folder.

    InputError: a path leads out of the folder, or a field is wrong.
    """
    sums = {}
    for name in listed.values:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise listed.wrong(name, "must be a path within the folder")
        file = listed.object(name)
        sums[name] = FileSum(bytes=file.integer("bytes"), sha256=file.text("sha256"))
    return sums


def sums_of_model(attempt: Path, names: Iterable[str]) -> dict[str, FileSum]:
    """Return the model's files, the labels and the card beside result.json, by path in the folder.

    A SavedModel is a folder.
    """
    sums = {}
    for name in (*names, LABELS_FILE, MODEL_CARD_FILE, MODEL_CARD_DATA_FILE):
        path = attempt / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                sums[file.relative_to(attempt).as_posix()] = FileSum.of(file)
    return sums


@dataclass(frozen=True)
class CheckpointManifest:
    """The content of manifest.json: what the training wrote, by path in the folder."""

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
        """Describe a folder's files; call `worked` after each."""
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = FileSum.of(path)
                worked()
        return cls(identity=identity, attempt=attempt, position=position, files=files)

    def to_json(self) -> str:
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
        fields = Fields.read(folder / CHECKPOINT_FILE)
        version = fields.integer("version")
        if version != VERSION:
            raise fields.wrong("version", f"is {version}, and this program reads {VERSION}")
        identity = fields.object("identity")
        return cls(
            identity=Identity(identity.text("jobUid"), identity.text("specHash")),
            attempt=fields.integer("attempt"),
            position=Position(fields.integer("epoch"), fields.integer("batch")),
            files=read_sums(fields.object("files")),
        )

    def verify(self, folder: Path, worked: Callable[[], None] = lambda: None) -> None:
        """Verify every file of the checkpoint; call `worked` after each."""
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


def write_batches_per_epoch(
    folder: Path,
    batches_per_epoch: int,
    images: int | None = None,
    validations: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the number of batches of an epoch, on each worker.

    It depends on the batch size: batch 700 of 5004 is before batch 620 of 626. `images` are those
    of the next epoch that all workers have finished, if their order is that of `data.order`: the
    position of the first missing one. `validations` are those so far (`ValidationHistory`).
    """
    document: dict[str, Any] = {"batchesPerEpoch": batches_per_epoch}
    if images is not None:
        document["images"] = images
    if validations:
        document[VALIDATIONS] = validations
    (folder / TRAINING_FILE).write_text(json.dumps(document))


def read_batches_per_epoch(folder: Path) -> int:
    """Return the batches of an epoch when the checkpoint was written, at least 1."""
    return Fields.read(folder / TRAINING_FILE).integer("batchesPerEpoch", minimum=1)


def read_validations(folder: Path) -> Sequence[Any]:
    """Return the validations before the checkpoint, as JSON; none of an earlier release's."""
    found: Sequence[Any] = Fields.read(folder / TRAINING_FILE).values.get(VALIDATIONS, ())
    return found


def read_images(folder: Path) -> int | None:
    """Return the images of the next epoch that were finished; None without an order."""
    fields = Fields.read(folder / TRAINING_FILE)
    return fields.integer("images") if fields.has("images") else None


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint with verified files."""

    folder: Path
    position: Position
    manifest: CheckpointManifest


class CheckpointStore:
    """The checkpoints of one job, for one of its attempts, the N of attempts/rN.

    Attributes:
        attempt_folder: The only folder to which this attempt writes.
        best: The folder of a checkpoint that is not deleted; None if there is none.
    """

    def __init__(self, output: Path, attempt: int, identity: Identity, keep: int) -> None:
        """Read no files yet; InputError if `keep` is less than 1."""
        if keep < 1:
            raise InputError(f"checkpoints to keep: {keep} given, at least 1 is needed")
        self._attempts = output / ATTEMPTS_FOLDER
        self._attempt = attempt
        self._identity = identity
        self._keep = keep
        self.attempt_folder = self._attempts / f"r{attempt}"
        self._folder = self.attempt_folder / CHECKPOINTS_FOLDER
        self._swept = False
        self.best: Path | None = None

    def refuse_later_attempt(self) -> None:
        """Create this attempt's folder, and check that no later attempt has one.

        SupersededError: a later attempt's folder exists. StorageError: it cannot be created.
        """
        # In this order, two attempts that start at the same time cannot both miss each other.
        files.make_output_folder(self.attempt_folder)
        latest = max(number for number, _ in _attempts(self._attempts))
        if latest > self._attempt:
            raise SupersededError(
                f"attempt {self._attempt} ends: {self._attempts / f'r{latest}'} exists, so a later "
                "attempt has taken over"
            )

    def sweep(self) -> None:
        """Delete what earlier attempts have left incomplete, outputs and checkpoints.

        An attempt that still runs is superseded: it ends when it next writes. InputError or
        StorageError: a folder cannot be read.
        """
        for number, attempt in _attempts(self._attempts):
            if number < self._attempt and not attempt.is_symlink():
                for folder in (attempt, attempt / CHECKPOINTS_FOLDER):
                    if folder.is_dir() and not folder.is_symlink():
                        files.sweep(folder)

    def require_room(self, epochs: int, *, may_end_before: bool = False) -> None:
        """Raise VolumeFullError if the volume is known to lack room for the next checkpoint.

        No checkpoint follows the last of all `epochs`; if it `may_end_before`, none may follow any.
        """
        newest = next(filter(self._is_own, self._candidates()), None)
        if newest is not None:
            place = CheckpointManifest.read(newest).position
            if place.epoch >= epochs or (may_end_before and place.batch == 0):
                return
        recorded = max(
            (_recorded_room(folder) for _, folder in _attempts(self._attempts)), default=0
        )
        needed = max(recorded, 0 if newest is None else size_of(newest))
        if files.free_bytes(self.attempt_folder) < needed:
            what = f"{self._attempts}: no room for a checkpoint"
            raise VolumeFullError(f"{what}: {self._remedy(f'{needed:,}')}", needed)

    def newest(
        self, init_from: Path | None = None, worked: Callable[[], None] = lambda: None
    ) -> Checkpoint | None:
        """Return the checkpoint to resume from; None to start from the beginning.

        It is the furthest checkpoint of this training, over this attempt and all earlier ones.
        Damaged checkpoints and those of other trainings are logged and ignored. Without one it is
        that of `init_from`: a checkpoint, or an attempt's or a job's folder, of any training.
        `worked` is called after each file that was compared.

        InputError: `init_from` is needed, and has no complete checkpoint.
        """
        for folder in self._candidates():
            try:
                manifest = CheckpointManifest.read(folder)
                reason = self._foreign(manifest.identity)
                if reason is None:
                    return _verified(folder, manifest, worked)
            except InputError as error:
                reason = f"damaged: {error}"
            _log.warning("checkpoint %s is ignored: %s", folder, reason)
        return None if init_from is None else named_checkpoint(init_from, worked)

    @contextmanager
    def begin(
        self,
        position: Position,
        worked: Callable[[], None] = lambda: None,
        ready: Callable[[], None] = lambda: None,
    ) -> Iterator[Path]:
        """Write one checkpoint: the `with` block fills the folder.

        After the block the folder is complete and in place, and older checkpoints of this attempt
        beyond `keep` are deleted, except `best`. If the block raises, nothing remains. If this
        attempt already has a complete checkpoint of the position, that one stays. `worked` is
        called after each file that is on the disk and was read again. `ready` returns when the
        complete checkpoint may get its name.

        SupersededError: a later attempt exists. VolumeFullError: the attempt's folder says what was
        needed. StorageError: the volume cannot be written.
        """
        self.refuse_later_attempt()
        final = self._folder / position.name
        temporary = files.temporary_for(final)
        try:
            with self._storage_errors(final, temporary):
                files.make_output_folder(self._folder)
                if not self._swept:
                    # Of an earlier process of this attempt, whose only writer this one is.
                    files.sweep(self._folder)
                    self._swept = True
                temporary.mkdir()
                yield temporary
                manifest = CheckpointManifest.describe(
                    temporary, self._identity, self._attempt, position, worked
                )
                # The files reach the disk before the manifest, which says that they are there.
                for path in temporary.rglob("*"):
                    files.sync(path)
                    worked()
                (temporary / CHECKPOINT_FILE).write_text(manifest.to_json(), encoding="utf-8")
                files.sync(temporary / CHECKPOINT_FILE)
                files.sync(temporary)
                ready()
                self._publish(temporary, final)
                self._prune(position)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def folder_of(self, position: Position, attempt: int | None = None) -> Path:
        """Return the folder of this or another attempt's checkpoint; it may not exist."""
        number = self._attempt if attempt is None else attempt
        return self._attempts / f"r{number}" / CHECKPOINTS_FOLDER / position.name

    def verified(self, folder: Path, worked: Callable[[], None] = lambda: None) -> Checkpoint:
        """Return a checkpoint; InputError if it is missing, damaged, or of another training."""
        manifest = CheckpointManifest.read(folder)
        if (reason := self._foreign(manifest.identity)) is not None:
            raise InputError(f"{folder}: {reason}")
        return _verified(folder, manifest, worked)

    @contextmanager
    def _storage_errors(self, final: Path, temporary: Path) -> Iterator[None]:
        where = f"cannot write checkpoint {final}"
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise self._record_full(where, temporary, error) from error
            # A later attempt sweeps this one.
            self.refuse_later_attempt()
            name = f" ({error.filename})" if error.filename else ""
            raise StorageError(f"{where}{name}: {error.strerror or error}") from error
        except WorkloadError:
            raise
        except Exception as error:
            # A framework's own writer has one error for a full volume and for much else.
            full = files.full_error(self._folder, temporary)
            if full is None:
                raise
            raise self._record_full(where, temporary, full) from error

    def _record_full(self, where: str, temporary: Path, full: OSError) -> VolumeFullError:
        """Record the bytes of a checkpoint for later attempts; return the error."""
        own = sorted(_checkpoints(self._folder), reverse=True)
        if own:
            needed = size_of(own[0][1])
            size = f"{needed:,}"
        else:
            written = size_of(temporary)
            # The free bytes of a volume can leave out a quota, and say nothing of one file.
            free = files.free_bytes(self._folder) if full.errno == errno.ENOSPC else 0
            needed = written + free + 1
            size = f"more than {written:,}"
        remedy = self._remedy(size, full.errno)
        error = VolumeFullError(f"{where}: {full.strerror}: {remedy}", needed)
        shutil.rmtree(temporary, ignore_errors=True)
        record_room(self.attempt_folder, needed)
        return error

    def _remedy(self, size: str, number: int | None = None) -> str:
        """Say what to do without room for a checkpoint of `size` bytes, by the error's number."""
        free = files.free_bytes(self.attempt_folder)
        go_on = ""
        if (newest := next(iter(self._candidates()), None)) is not None:
            # As initFrom takes it: from the root of the volume, where a job has jobs/NAME-UID.
            output = self._attempts.parent
            if output.parent.name == "jobs":
                newest = newest.relative_to(output.parent.parent)
            go_on = f"; a new job goes on with checkpoint.initFrom: {newest}"
        return f"a checkpoint needs {size} bytes and {free:,} are free; {make_room(number)}{go_on}"

    def _candidates(self) -> list[Path]:
        found = [
            (position, number, folder)
            for number, attempt in _attempts(self._attempts)
            if number <= self._attempt
            for position, folder in _checkpoints(attempt / CHECKPOINTS_FOLDER)
        ]
        return _furthest_first(found)

    def _foreign(self, identity: Identity) -> str | None:
        """Say why an identity is that of another training; None if it is not."""
        if identity.job_uid != self._identity.job_uid:
            return f"of another job, uid {identity.job_uid!r} (this is {self._identity.job_uid!r})"
        if identity.spec_hash != self._identity.spec_hash:
            return (
                f"of this job with another spec, hash {identity.spec_hash!r} "
                f"(this is {self._identity.spec_hash!r})"
            )
        return None

    def _publish(self, temporary: Path, final: Path) -> None:
        if final.exists():
            with suppress(InputError):
                manifest = CheckpointManifest.read(final)
                manifest.verify(final)
                if self._foreign(manifest.identity) is None:
                    return
            # Damaged, or of another training that ran in this folder.
            files.remove_folder(final)
        temporary.rename(final)
        files.sync(self._folder)

    def _prune(self, written: Position) -> None:
        """Delete this attempt's checkpoints before the `keep` newest up to `written`, but `best`.

        Later ones stay: they looked damaged at the resume, but that may have been a read error.
        Those of other trainings stay too.
        """
        own = [
            folder
            for position, folder in sorted(_checkpoints(self._folder), reverse=True)
            if position <= written and self._is_own(folder)
        ]
        for folder in own[self._keep :]:
            if folder != self.best:
                files.remove_folder(folder)

    def _is_own(self, folder: Path) -> bool:
        try:
            return CheckpointManifest.read(folder).identity == self._identity
        except InputError:
            return False


def named_checkpoint(path: Path, worked: Callable[[], None] = lambda: None) -> Checkpoint:
    """Return the newest complete checkpoint at or below a path; InputError if there is none."""
    if (path / CHECKPOINT_FILE).exists():
        return _verified(path, CheckpointManifest.read(path), worked)
    attempts = [(0, path), *_attempts(path / ATTEMPTS_FOLDER)]
    found = [
        (position, number, folder)
        for number, attempt in attempts
        for position, folder in _checkpoints(attempt / CHECKPOINTS_FOLDER)
    ]
    for folder in _furthest_first(found):
        try:
            return _verified(folder, CheckpointManifest.read(folder), worked)
        except InputError as error:
            _log.warning("checkpoint %s is ignored: damaged: %s", folder, error)
    raise InputError(
        f"initFrom: {path} has no complete checkpoint; name the folder of a checkpoint, of an "
        "attempt or of a job"
    )


def _furthest_first(found: Sequence[tuple[Position, int, Path]]) -> list[Path]:
    """Sort checkpoints of several attempts, whose epochs may have different lengths.

    Of two at the same position, the later attempt's is first.
    """
    lengths = {folder: _length(folder) for position, _, folder in found if position.batch}
    # Without the length of an epoch, only batches can be compared.
    unknown = {position.epoch for position, _, folder in found if lengths.get(folder, 1) is None}

    def progress(checkpoint: tuple[Position, int, Path]) -> tuple[int, Fraction, int, Path]:
        position, number, folder = checkpoint
        length = 1 if position.epoch in unknown else lengths.get(folder) or 1
        return position.epoch, Fraction(position.batch, length), number, folder

    return [folder for _, _, folder in sorted(found, key=progress, reverse=True)]


def _length(folder: Path) -> int | None:
    try:
        return read_batches_per_epoch(folder)
    except InputError:
        return None


def _verified(folder: Path, manifest: CheckpointManifest, worked: Callable[[], None]) -> Checkpoint:
    manifest.verify(folder, worked)
    return Checkpoint(folder, manifest.position, manifest)


def _attempts(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in _entries(folder):
        if match := _ATTEMPT.fullmatch(path.name):
            yield int(match[1]), path


def _checkpoints(folder: Path) -> Iterator[tuple[Position, Path]]:
    for path in _entries(folder):
        if match := _CHECKPOINT.fullmatch(path.name):
            yield Position(int(match[1]), int(match[2])), path


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed: {error.strerror}") from error


def size_of(folder: Path) -> int:
    """Count the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def record_room(attempt_folder: Path, needed: int) -> None:
    """Record the bytes that must be free, if the volume takes that."""
    path, text = attempt_folder / ROOM_FILE, json.dumps({"bytes": needed}) + "\n"
    with suppress(StorageError):
        files.write_output(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _recorded_room(attempt_folder: Path) -> int:
    try:
        return int(json.loads(volume_files.read_bytes(attempt_folder / ROOM_FILE))["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
