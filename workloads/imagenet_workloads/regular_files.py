"""Opens what must be a file, so that nothing else that has a name can hang a program.

Opening a pipe waits for whoever writes to it, and a device such as /dev/zero has no end.
"""

import os
import stat
from pathlib import Path

from imagenet_workloads.errors import InputError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_file(path: str | Path) -> int:
    """Opens a file for reading and returns its descriptor; links are followed.

    Raises:
        InputError: the path leads to a folder, a pipe, a device or a socket.
        OSError: it cannot be opened.
    """
    # Without waiting: so that a pipe is known for one before anybody writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
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
