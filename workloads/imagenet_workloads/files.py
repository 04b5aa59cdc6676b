"""Opens what must be a file, and writes files and folders that are complete or absent.

Opening a pipe waits for a writer, and a device such as /dev/zero has no end, so neither is opened.

What is written has a temporary name (`.NAME.tmp-TOKEN`) until it is synced and renamed. After a
kill or a power failure only such names are left; a later run deletes them (`sweep`).
`storage_errors` and `output_error` give an error of the system a remedy: the first for the volume
of a dataset, the second for that of an output.
"""

import contextlib
import ctypes
import errno
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, NoReturn

from imagenet_spec import volume_files
from imagenet_spec.names import TEMPORARY
from imagenet_workloads.errors import NO_ROOM, InputError, StorageError, WorkloadError, output_error

# A temporary file without a write for so long belongs to no running process. Ages are by the
# volume's clock.
ABANDONED_SECONDS = 900

# The growth of a file after which the volume starts to write it back.
STRIDE = 4 << 20

# What `temporary_for` makes.
_TEMPORARY = re.compile(TEMPORARY)
_TRIES = 5
# A volume with less than this is full for a writer that needs more at a time.
_AS_GOOD_AS_FULL = 1 << 20
# linux/fs.h
_SYNC_FILE_RANGE_WRITE = 2
_FORBIDDEN = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_NO_PLACE = frozenset((errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP))

# Errors that a path has, and not its disk: another try would give the same.
_OF_PATHS = frozenset((errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP))


def status_of(path: Path) -> os.stat_result | None:
    """The status of what a path leads to; None if it leads to nothing.

    InputError if a folder above may not be searched, or it is no path; WorkloadError if the system
    call fails otherwise.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        kind = InputError if error.errno in _OF_PATHS else WorkloadError
        raise kind(f"{path}: cannot be accessed: {error.strerror}{owner(path)}") from error


def exists(path: Path) -> bool:
    """Whether a path leads to anything; errors are those of `status_of`."""
    return status_of(path) is not None


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; errors are those of `status_of`."""
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def require_no_file(folder: Path) -> None:
    """Check that neither a folder nor one above it is a file; InputError if one is."""
    for candidate in (folder, *folder.parents):
        status = status_of(candidate)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            raise InputError(f"{folder}: {candidate} is a file; give a folder")


def owner(path: Path) -> str:
    """Whose the nearest folder or file is that can be looked at, and who asks, for a message."""
    for candidate in (path, *path.parents):
        try:
            status = candidate.stat()
        except OSError:
            continue
        return (
            f" ({candidate} belongs to {status.st_uid}:{status.st_gid}, "
            f"mode {stat.filemode(status.st_mode)}; this process is {os.geteuid()}:{os.getegid()})"
        )
    return ""


def open_file(path: str | Path) -> int:
    """Open a file for reading and return its descriptor; links are followed.

    InputError if the path leads to a pipe, a device or a socket; OSError if it cannot be opened, or
    is a folder.
    """
    try:
        return volume_files.open_file(path)
    except volume_files.NotAFile as error:
        raise InputError(f"{path}: {error.strerror}") from error


def read_bytes(path: str | Path) -> bytes:
    """Return the whole content of a file; errors are those of `open_file`."""
    with os.fdopen(open_file(path), "rb") as file:
        return file.read()


def temporary_for(path: Path) -> Path:
    """Return a new temporary name beside a path."""
    return path.with_name(f".{path.name}.tmp-{secrets.token_hex(8)}")


def explain(path: Path, error: OSError) -> NoReturn:
    """Raise an OSError about a write of `path` with a remedy.

    It becomes a StorageError if the volume is full, read-only, or owned by another user, and
    otherwise a WorkloadError, because it may be transient.
    """
    if error.errno in NO_ROOM:
        raise StorageError(
            f"{path}: {error.strerror}: the volume, or the quota of this process, is full; "
            "enlarge it, then run again: finished shards are kept"
        ) from error
    if error.errno in _FORBIDDEN:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}{owner(path)}; "
            "make it writable for this user, such as by securityContext.fsGroup"
        ) from error
    if error.errno in _NO_PLACE:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}{_obstacle(path)}; give a folder"
        ) from error
    raise WorkloadError(f"{path}: cannot be written: {error.strerror}") from error


def _obstacle(path: Path) -> str:
    for candidate in (path, *path.parents):
        with contextlib.suppress(OSError):
            if candidate.is_file():
                return f" ({candidate} is a file)"
            if candidate.is_symlink() and not candidate.exists():
                return f" ({candidate} is a broken link)"
    return ""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise any OSError of the block, which writes `path`, with a remedy."""
    try:
        yield
    except OSError as error:
        explain(path, error)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and check that it is writable; StorageError if not."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _make_probe(folder)


def make_output_folder(folder: Path) -> None:
    """Create a folder of an output volume and its parents, synced to the disk.

    VolumeFullError if the volume is full, StorageError if it cannot be created.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            # A folder's name survives a power failure once its parent is synced.
            sync(path.parent)
    except OSError as error:
        raise output_error(
            f"cannot create {folder} as user {os.getuid()}",
            error,
            "the output volume must be writable to the training pods",
        ) from error


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the volume of a folder."""
    return shutil.disk_usage(folder).free


def full_error(folder: Path, written: Path) -> OSError | None:
    """Return the system's error if a folder has no room for a file; None if it has.

    For a framework's writer, whose own error does not say why it failed. What it could not
    complete, `written`, may not exist.
    """
    if free_bytes(folder) < _AS_GOOD_AS_FULL:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        tried = (path for path in _tree(written) if path.is_file())
        largest = max((path.stat().st_size for path in tried), default=0)
        # The free bytes of a volume can leave out a quota. NFS reports it at the sync.
        with tempfile.TemporaryFile(dir=folder) as probe:
            # A limit for the size of a file is found only where a file has it.
            probe.seek(largest)
            probe.write(bytes(_AS_GOOD_AS_FULL))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error if error.errno in NO_ROOM else None
    return None


def require_space(
    folder: Path,
    needed: int,
    what: str,
    remedy: str = "enlarge the volume, or use a smaller resize or quality",
) -> None:
    """Check that the volume of a folder has the needed bytes, for `what` needs them.

    StorageError, with the remedy, if it has less.
    """
    free = free_bytes(folder)
    if free < needed:
        raise StorageError(
            f"{folder}: {what} needs about {_readable(needed)}, and {_readable(free)} are free; "
            f"{remedy}"
        )


class NewFile:
    """A file with a temporary name until `publish` renames it.

    A context manager: a file that is not published is deleted. StorageError if it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = temporary_for(path)
        self.file: BinaryIO
        with storage_errors(path):
            # Closed in __exit__.
            self.file = self._temporary.open("xb", buffering=1 << 16)
        self._begun = 0

    def write_behind(self) -> None:
        """Start to write back, so that `finish` has less to sync.

        To be called regularly while the file grows; it does not block.
        """
        grown = self.file.tell() - self._begun
        if grown < STRIDE:
            return
        with storage_errors(self.path):
            self.file.flush()
        begin_writing(self.file.fileno(), self._begun, grown)
        self._begun += grown

    def finish(self) -> None:
        with storage_errors(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()

    def publish(self) -> None:
        """Rename the finished file.

        FileNotFoundError if another process has deleted the temporary file.
        """
        try:
            self._temporary.rename(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            explain(self.path, error)

    def __enter__(self) -> "NewFile":
        return self

    def __exit__(self, *_: object) -> None:
        # On a full volume the flush of close fails; the reason was raised before.
        with contextlib.suppress(OSError):
            self.file.close()
        self._temporary.unlink(missing_ok=True)


def begin_writing(descriptor: int, start: int, length: int) -> None:
    """Start to write a part of a file back, without waiting."""
    # Only a hint: an error, such as on a file system without this call, is reported by `fsync`.
    ctypes.CDLL(None).sync_file_range(
        ctypes.c_int(descriptor),
        ctypes.c_int64(start),
        ctypes.c_int64(length),
        ctypes.c_uint(_SYNC_FILE_RANGE_WRITE),
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a small file atomically.

    StorageError if it cannot be written, WorkloadError if its temporary file vanishes repeatedly.
    """
    for _ in range(_TRIES):
        # Another run that seals the same dataset may have deleted the temporary file.
        with contextlib.suppress(FileNotFoundError):
            write_chunks(path, [content])
            return
    raise WorkloadError(f"{path}: another process deletes temporary files there")


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file atomically, from its chunks.

    StorageError if it cannot be written, FileNotFoundError if another process deleted the temporary
    file.
    """
    with NewFile(path) as new:
        with storage_errors(path):
            new.file.writelines(chunks)
        new.finish()
        new.publish()
    with storage_errors(path.parent):
        sync(path.parent)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the volume."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Replace a file or folder by what the block makes under a temporary name.

    It is synced and renamed at the end of the block. If the block raises, nothing remains of it. A
    file never replaces a folder: that is the system's error, as is a folder in place of a file.
    """
    temporary = temporary_for(path)
    try:
        yield temporary
        for made in _tree(temporary):
            sync(made)
        if temporary.is_dir() and path.is_dir() and not path.is_symlink():
            remove_folder(path)
        temporary.rename(path)
        sync(path.parent)
    finally:
        _discard(temporary)


def write_output(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file or folder of the output volume, renamed into place when complete.

    VolumeFullError if the volume is full, StorageError if it cannot be written.
    """
    try:
        with replacing(path) as temporary:
            try:
                write(temporary)
            except OSError:
                raise
            except Exception as error:
                # A framework's own writer has one error for a full volume and for much else.
                full = full_error(path.parent, temporary)
                if full is None:
                    raise
                raise full from error
    except OSError as error:
        raise output_error(f"cannot write {path}", error) from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Create a folder with a temporary name, and rename it to `path` at the end of the block.

    If another run was faster, its folder stays: folders of one key are equal. The caller must sync
    the files in it.
    """
    temporary = temporary_for(path)
    with storage_errors(path):
        temporary.mkdir()
    try:
        yield temporary
        with storage_errors(path):
            sync(temporary)
            try:
                temporary.rename(path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            sync(path.parent)
    finally:
        _discard(temporary)


def remove_folder(folder: Path, *, ignore_errors: bool = False) -> None:
    """Delete a folder, if there is one, after an atomic rename to a temporary name.

    With `ignore_errors` what cannot be deleted is left under that name.
    """
    aside = temporary_for(folder)
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors)


@contextmanager
def unnamed_file(folder: Path) -> Iterator[IO[bytes]]:
    """Open an unnamed file on the volume, until the end of the block or of the process.

    StorageError if it cannot be made here.
    """
    temporary = temporary_for(folder / "scan")
    with storage_errors(folder):
        # Closed below.
        file = temporary.open("x+b", buffering=1 << 20)
        temporary.unlink()
    try:
        yield file
    finally:
        # On a full volume the flush of close fails; the reason was raised before.
        with contextlib.suppress(OSError):
            file.close()


def sweep(folder: Path, older_than: float = 0.0) -> None:
    """Delete temporary files and folders that were last written more than `older_than` s ago."""
    with storage_errors(folder):
        # A full volume may have no room for a file by which to read its clock.
        now = volume_clock(folder) if older_than > 0 else math.inf
        for entry in os.scandir(folder):
            if not _TEMPORARY.fullmatch(entry.name):
                continue
            try:
                if now - entry.stat(follow_symlinks=False).st_mtime < older_than:
                    continue
            except FileNotFoundError:
                continue
            _discard(Path(entry.path))


def _tree(path: Path) -> list[Path]:
    """A file, or a folder with all that is below it."""
    return [path, *path.rglob("*")] if path.is_dir() else [path]


def _discard(path: Path) -> None:
    """Delete a file or folder, if there is one and it can be deleted."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def volume_clock(folder: Path) -> float:
    """Return the time of the volume's own clock, by which it dates files, in seconds since 1970."""
    return _make_probe(folder).st_mtime


def _make_probe(folder: Path) -> os.stat_result:
    """Create a file and delete it; return its status."""
    probe = temporary_for(folder / "probe")
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
        # Another run may have deleted it.
        probe.unlink(missing_ok=True)


def _readable(amount: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
