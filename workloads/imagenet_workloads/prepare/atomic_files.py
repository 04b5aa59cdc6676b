"""The one edge through which preparing writes: nothing is visible before it is whole.

Files are written under temporary names (`.NAME.tmp-TOKEN`), synced, and renamed; so is the plan's
folder. What a killed run leaves behind is swept up by a later one. Every failure says which path,
whose, and what would help.
"""

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, NoReturn

from imagenet_workloads.errors import StorageError, WorkloadError
from imagenet_workloads.regular_files import owner

# A temporary file that nobody has written to for so long belongs to no living run. Ages are taken
# by the volume's own clock.
ABANDONED_SECONDS = 900

# How much a file grows before the volume is told to begin with it.
STRIDE = 4 << 20

_TEMPORARY = ".tmp-"
_TRIES = 5
# linux/fs.h
_SYNC_FILE_RANGE_WRITE = 2
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_FORBIDDEN = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_NO_PLACE = frozenset((errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP))


def temporary_for(path: Path) -> Path:
    """A new temporary name beside a path."""
    return path.with_name(f".{path.name}{_TEMPORARY}{secrets.token_hex(8)}")


def explain(path: Path, error: OSError) -> NoReturn:
    """Raises what an OSError about writing `path` means.

    Raises:
        StorageError: the volume is full, read-only, or not ours.
        WorkloadError: anything else that the system says, which may pass.
    """
    if error.errno in _FULL:
        raise StorageError(
            f"{path}: {error.strerror}: the volume, or this process's share of it, is full; "
            "enlarge it, then run again: finished shards are kept"
        ) from error
    if error.errno in _FORBIDDEN:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}{owner(path)}; "
            "give this user the folder, such as by securityContext.fsGroup"
        ) from error
    if error.errno in _NO_PLACE:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}{_obstacle(path)}; give a folder"
        ) from error
    raise WorkloadError(f"{path}: cannot be written: {error.strerror}") from error


def _obstacle(path: Path) -> str:
    """What is in the place of a folder, if anything is."""
    for candidate in (path, *path.parents):
        with contextlib.suppress(OSError):
            if candidate.is_file():
                return f" ({candidate} is a file)"
            if candidate.is_symlink() and not candidate.exists():
                return f" ({candidate} is a link to nothing)"
    return ""


@contextmanager
def telling_where(path: Path) -> Iterator[None]:
    """Explains any OSError of the block, which writes `path`."""
    try:
        yield
    except OSError as error:
        explain(path, error)


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it, and makes sure that files can be written to it.

    Raises:
        StorageError: they cannot.
    """
    with telling_where(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _make_probe(folder)


def free_bytes(folder: Path) -> int:
    """The bytes that a file in `folder` can still take."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def require_space(folder: Path, needed: int, what: str) -> None:
    """Checks that the volume has room.

    Args:
        folder: on the volume.
        needed: bytes.
        what: takes them, for the message.

    Raises:
        StorageError: it has less.
    """
    free = free_bytes(folder)
    if free < needed:
        raise StorageError(
            f"{folder}: {what} needs about {_readable(needed)}, and {_readable(free)} are free; "
            "enlarge the volume, or give a smaller resize or quality"
        )


class NewFile:
    """A file under a temporary name until `publish` gives it its own.

    Use as a context manager: leaving it unpublished removes it.
    """

    def __init__(self, path: Path) -> None:
        """Opens it.

        Raises:
            StorageError: it cannot be made here.
        """
        self.path = path
        self._temporary = temporary_for(path)
        self.file: BinaryIO
        with telling_where(path):
            # Closed in __exit__.
            self.file = self._temporary.open("xb", buffering=1 << 16)
        self._begun = 0

    def write_behind(self) -> None:
        """Lets the volume begin with what was written, so that little is left for `finish`.

        To be called now and then while the file grows; waits for nothing.
        """
        grown = self.file.tell() - self._begun
        if grown < STRIDE:
            return
        with telling_where(self.path):
            self.file.flush()
        _begin_writing(self.file.fileno(), self._begun, grown)
        self._begun += grown

    def finish(self) -> None:
        """Makes sure that every byte is on the volume."""
        with telling_where(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()

    def publish(self) -> None:
        """Gives the finished file its own name.

        Raises:
            FileNotFoundError: somebody swept the temporary file away.
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
        # On a full volume closing flushes in vain; the reason was raised before.
        with contextlib.suppress(OSError):
            self.file.close()
        self._temporary.unlink(missing_ok=True)


def _begin_writing(descriptor: int, start: int, length: int) -> None:
    # Only a hint: what fails here, such as on a file system that has no such call, `fsync` tells.
    ctypes.CDLL(None).sync_file_range(
        ctypes.c_int(descriptor),
        ctypes.c_int64(start),
        ctypes.c_int64(length),
        ctypes.c_uint(_SYNC_FILE_RANGE_WRITE),
    )


def write_file(path: Path, content: bytes) -> None:
    """Writes a small file as a whole.

    Raises:
        StorageError: it cannot be written.
        WorkloadError: its temporary file vanishes again and again.
    """
    for _ in range(_TRIES):
        # A run that seals the same dataset may just have swept the temporary file up.
        with contextlib.suppress(FileNotFoundError):
            write_chunks(path, [content])
            return
    raise WorkloadError(f"{path}: somebody removes what is being written there")


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file as a whole, from its chunks.

    Raises:
        StorageError: it cannot be written.
        FileNotFoundError: somebody swept the temporary file away.
    """
    with NewFile(path) as new:
        with telling_where(path):
            new.file.writelines(chunks)
        new.finish()
        new.publish()
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes sure that the names in a folder are on the volume."""
    with telling_where(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder under a temporary name, renamed to `path` at the end of the block.

    Where another run was faster, its folder stays and ours goes: with one key they are equal.
    Files in it must be synced by whoever wrote them.
    """
    temporary = temporary_for(path)
    with telling_where(path):
        temporary.mkdir()
    try:
        yield temporary
        sync_folder(temporary)
        try:
            temporary.rename(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                explain(path, error)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def unnamed_file(folder: Path) -> Iterator[IO[bytes]]:
    """A file without a name on the volume, gone at the end of the block or of the process.

    Raises:
        StorageError: it cannot be made here.
    """
    temporary = temporary_for(folder / "scan")
    with telling_where(folder):
        # Closed below.
        file = temporary.open("x+b", buffering=1 << 20)
        temporary.unlink()
    try:
        yield file
    finally:
        # On a full volume closing flushes in vain; the reason was raised before.
        with contextlib.suppress(OSError):
            file.close()


def sweep(folder: Path, older_than: float) -> None:
    """Removes temporary files and folders that were last written more than `older_than` s ago."""
    with telling_where(folder):
        now = _volume_clock(folder)
        for entry in os.scandir(folder):
            if not (entry.name.startswith(".") and _TEMPORARY in entry.name):
                continue
            try:
                if now - entry.stat(follow_symlinks=False).st_mtime < older_than:
                    continue
            except FileNotFoundError:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)


def _volume_clock(folder: Path) -> float:
    return _make_probe(folder).st_mtime


def _make_probe(folder: Path) -> os.stat_result:
    """Makes a file and removes it; returns its status."""
    probe = temporary_for(folder / "probe")
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
        # The sweep of another run may have removed it.
        probe.unlink(missing_ok=True)


def _readable(amount: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
