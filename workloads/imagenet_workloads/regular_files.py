"""Opens what must be a file, and says what is wrong with a path that leads to none.

Opening a pipe waits for a writer, and a device such as /dev/zero has no end.
"""

import errno
import os
import stat
from pathlib import Path

from imagenet_workloads.errors import InputError, WorkloadError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}

# Errors that a path has, and not its disk: another try would give the same.
_OF_PATHS = frozenset((errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP))


def status_of(path: Path) -> os.stat_result | None:
    """The status of what a path leads to; None if it leads to nothing.

    Raises:
        InputError: a folder above may not be searched, or it is no path.
        WorkloadError: The system call fails.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        kind = InputError if error.errno in _OF_PATHS else WorkloadError
        raise kind(f"{path}: cannot be accessed: {error.strerror}{owner(path)}") from error


def exists(path: Path) -> bool:
    """Whether a path leads to anything.

    Raises:
        WorkloadError: as `status_of`.
    """
    return status_of(path) is not None


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder.

    Raises:
        WorkloadError: as `status_of`.
    """
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def require_no_file(folder: Path) -> None:
    """Checks that neither a folder nor one above it is a file instead.

    Raises:
        InputError: one is.
    """
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
    """Opens a file for reading and returns its descriptor; links are followed.

    Raises:
        InputError: the path leads to a pipe, a device or a socket.
        OSError: it cannot be opened, or is a folder.
    """
    # Without waiting: so a pipe is recognised before it has a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    raise InputError(f"{path}: is {kind}, not a file")


def read_bytes(path: str | Path) -> bytes:
    """The whole content of a file.

    Raises:
        InputError: the path leads to no file.
        OSError: it cannot be read.
    """
    with os.fdopen(open_file(path), "rb") as file:
        return file.read()
