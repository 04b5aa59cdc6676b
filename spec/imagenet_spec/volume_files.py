"""Reads a file of a volume, where a program may have put anything in its place.

A pipe without a writer would hold its reader up for ever, and a device may have no end.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

OPENING: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""How files are opened. Without waiting: so a pipe is recognised before it has a writer."""

_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class NotAFile(OSError):  # noqa: N818 - says what is there
    """A path leads to a pipe, a device or a socket; `strerror` says to which."""


def kind_of(mode: int) -> str | None:
    """Return in words what a mode is of; None if it is of a file."""
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something else")


def open_file(path: str | Path, *, folder: int | None = None, flags: int = 0) -> int:
    """Open a file for reading and return its descriptor; with O_NOFOLLOW, a link is an error.

    `folder` is the descriptor of the folder to which the path is relative.

    Raises:
        NotAFile: The path leads to a pipe, a device or a socket.
        OSError: It cannot be opened, or is a folder.
    """
    descriptor = os.open(path, os.O_RDONLY | OPENING | flags, dir_fd=folder)
    kind = kind_of(mode := os.fstat(descriptor).st_mode)
    if kind is None:
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotAFile(errno.EINVAL, f"is {kind}, not a file", str(path))


def opened(path: str | Path) -> BufferedReader:
    """Open a file for reading; errors are those of `open_file`."""
    return os.fdopen(open_file(path), "rb")


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file; errors are those of `open_file`."""
    with opened(path) as file:
        return file.read()


def read_text(path: str | Path) -> str:
    """Return the text of a file, with a character in place of bytes that are not UTF-8."""
    return read_bytes(path).decode(errors="replace")
