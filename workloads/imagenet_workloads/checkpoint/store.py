"""Finds, writes and prunes the checkpoints of one job, over its attempts.

    OUTPUT/attempts/r0/checkpoints/epoch-0003-batch-00000000/{manifest.json, …}

An attempt reads the checkpoints of all attempts up to its own, and writes only in its own folder. A
checkpoint is written under a temporary name and then renamed. So it is complete or absent, even
after a crash or power failure.

An attempt that lacks room records in its folder how many bytes must be free. Later attempts compare
that, and the size of the newest checkpoint, with the free bytes before they load anything. A file
can be recorded on a full volume, because the incomplete checkpoint is deleted first.
"""

import errno
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from imagenet_spec.names import ATTEMPTS_FOLDER
from imagenet_workloads import files
from imagenet_workloads.checkpoint.manifest import (
    FILE_NAME,
    CheckpointManifest,
    Identity,
    Position,
    read_batches_per_epoch,
)
from imagenet_workloads.errors import (
    NO_ROOM,
    InputError,
    StorageError,
    SupersededError,
    VolumeFullError,
    WorkloadError,
    make_room,
)

__all__ = ["Checkpoint", "CheckpointStore", "Identity", "Position"]

_log = logging.getLogger(__name__)

ROOM_FILE = "volume-full.json"

_ATTEMPT = re.compile(r"r(0|[1-9][0-9]*)")
_CHECKPOINT = re.compile(r"epoch-([0-9]{4,})-batch-([0-9]{8,})")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint with verified files.

    Attributes:
        folder: The folder with the training's files and manifest.json.
        position: of the training.
        manifest: Its training and its files.
    """

    folder: Path
    position: Position
    manifest: CheckpointManifest


class CheckpointStore:
    """The checkpoints of one job, for one of its attempts.

    Attributes:
        attempt_folder: The only folder to which this attempt writes.
    """

    def __init__(self, output: Path, attempt: int, identity: Identity, keep: int) -> None:
        """Read no files yet.

        Args:
            output: The job's folder on the output volume.
            attempt: The N of attempts/rN.
            identity: The identity of this training.
            keep: The number of checkpoints of this attempt to keep, at least 1.

        Raises:
            InputError: `keep` is less than 1.
        """
        if keep < 1:
            raise InputError(f"checkpoints to keep: {keep} given, at least 1 is needed")
        self._attempts = output / ATTEMPTS_FOLDER
        self._attempt = attempt
        self._identity = identity
        self._keep = keep
        self._swept = False
        self.attempt_folder = self._attempts / f"r{attempt}"
        self._folder = self.attempt_folder / "checkpoints"

    def refuse_later_attempt(self) -> None:
        """Create this attempt's folder, and check that no later attempt has one.

        Raises:
            SupersededError: A later attempt's folder exists.
            StorageError: The folder cannot be created.
        """
        # In this order, two attempts that start at the same time cannot both miss each other.
        files.make_output_folder(self.attempt_folder)
        latest = max(number for number, _ in _attempts(self._attempts))
        if latest > self._attempt:
            raise SupersededError(
                f"attempt {self._attempt} ends: {self._attempts / f'r{latest}'} exists, so a later "
                "attempt has taken over"
            )

    def require_room(self, epochs: int) -> None:
        """Check that the volume has room for the next checkpoint, if its size is known.

        Args:
            epochs: of the whole training; after the last one no checkpoint follows.

        Raises:
            VolumeFullError: It has less.
        """
        newest = next(filter(self._is_own, self._candidates()), None)
        if newest is not None and CheckpointManifest.read(newest).position.epoch >= epochs:
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
        Damaged checkpoints and those of other trainings are logged and ignored.

        Args:
            init_from: The start without such a checkpoint: a checkpoint, or an attempt's or a job's
                folder, of any training.
            worked: called after each file that was compared.

        Raises:
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
        return None if init_from is None else _named(init_from, worked)

    @contextmanager
    def begin(
        self,
        position: Position,
        worked: Callable[[], None] = lambda: None,
        ready: Callable[[], None] = lambda: None,
    ) -> Iterator[Path]:
        """Write one checkpoint: the `with` block fills the folder.

        After the block the folder is complete and in place, and older checkpoints of this attempt
        beyond `keep` are deleted. If the block raises, nothing remains. If this attempt already has
        a complete checkpoint of the position, that one stays.

            with store.begin(Position(epoch=3, batch=0)) as folder:
                network.save_parameters(str(folder / "params"))

        Args:
            position: that of the training.
            worked: called after each file that is on the disk and was read again.
            ready: returns when the complete checkpoint may get its name.

        Raises:
            SupersededError: A later attempt exists.
            VolumeFullError: The volume is full; the attempt's folder says what was needed.
            StorageError: The volume cannot be written.
        """
        self.refuse_later_attempt()
        final = self._folder / position.name
        temporary = files.temporary_for(final)
        try:
            with self._storage_errors(final, temporary):
                files.make_output_folder(self._folder)
                self._sweep()
                temporary.mkdir()
                yield temporary
                manifest = CheckpointManifest.describe(
                    temporary, self._identity, self._attempt, position, worked
                )
                _seal(temporary, manifest, worked)
                ready()
                self._publish(temporary, final)
                self._prune(position)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def folder_of(self, position: Position) -> Path:
        """Return the folder of this attempt's checkpoint of a position; it may not exist."""
        return self._folder / position.name

    @contextmanager
    def _storage_errors(self, final: Path, temporary: Path) -> Iterator[None]:
        """Turns what the volume refuses into an error with a remedy."""
        where = f"cannot write checkpoint {final}"
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise self._record_full(where, temporary, error) from error
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
        """What to do if there is no room for a checkpoint of some bytes, by the error's number."""
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
        """Return the checkpoint folders of all attempts up to this one, the furthest first."""
        found = [
            (position, number, folder)
            for number, attempt in _attempts(self._attempts)
            if number <= self._attempt
            for position, folder in _checkpoints(attempt / "checkpoints")
        ]
        return _furthest_first(found)

    def _foreign(self, identity: Identity) -> str | None:
        """Return why an identity is that of another training; None if it is not."""
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
            if self._is_own_and_complete(final):
                return
            # Damaged, or of another training that ran in this folder.
            files.remove_folder(final)
        temporary.rename(final)
        files.sync(self._folder)

    def _is_own_and_complete(self, folder: Path) -> bool:
        try:
            manifest = CheckpointManifest.read(folder)
            manifest.verify(folder)
        except InputError:
            return False
        return self._foreign(manifest.identity) is None

    def _prune(self, written: Position) -> None:
        """Delete this attempt's checkpoints before the `keep` newest up to `written`.

        Later ones stay: they looked damaged at the resume, but that may have been a read error.
        Those of other trainings stay too.
        """
        own = [
            folder
            for position, folder in sorted(_checkpoints(self._folder), reverse=True)
            if position <= written and self._is_own(folder)
        ]
        for folder in own[self._keep :]:
            files.remove_folder(folder)

    def _is_own(self, folder: Path) -> bool:
        try:
            return CheckpointManifest.read(folder).identity == self._identity
        except InputError:
            return False

    def _sweep(self) -> None:
        """Delete, once, the incomplete files of an earlier process of this attempt."""
        if not self._swept:
            self._swept = True
            for path in self._folder.glob(".*.tmp-*"):
                shutil.rmtree(path)


def _named(path: Path, worked: Callable[[], None]) -> Checkpoint:
    """Return the newest complete checkpoint at or below a path.

    Raises:
        InputError: There is none; the message says why.
    """
    if (path / FILE_NAME).exists():
        return _verified(path, CheckpointManifest.read(path), worked)
    attempts = [(0, path), *_attempts(path / ATTEMPTS_FOLDER)]
    found = [
        (position, number, folder)
        for number, attempt in attempts
        for position, folder in _checkpoints(attempt / "checkpoints")
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

    Args:
        found: Position, attempt and folder of each; of two at the same position, the later
            attempt's is first.
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


def _seal(folder: Path, manifest: CheckpointManifest, worked: Callable[[], None]) -> None:
    """Sync the folder's files to the disk, then the manifest."""
    for path in folder.rglob("*"):
        files.sync(path)
        worked()
    (folder / FILE_NAME).write_text(manifest.to_json(), encoding="utf-8")
    files.sync(folder / FILE_NAME)
    files.sync(folder)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def record_room(attempt_folder: Path, needed: int) -> None:
    """Record the bytes that must be free, if the volume takes that."""
    path, text = attempt_folder / ROOM_FILE, json.dumps({"bytes": needed}) + "\n"
    with suppress(StorageError):
        files.write_output(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _recorded_room(attempt_folder: Path) -> int:
    """Return the bytes that an attempt recorded; 0 for none, and for a damaged file."""
    try:
        return int(json.loads((attempt_folder / ROOM_FILE).read_text(encoding="utf-8"))["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
