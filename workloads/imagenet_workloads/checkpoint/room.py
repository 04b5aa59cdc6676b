"""The room that a checkpoint needs on the output volume.

An attempt that lacks room records in its folder how many bytes must be free. Later attempts compare
that, and the size of the newest checkpoint, with the free bytes before they load anything. A file
can be recorded on a full volume, because the incomplete checkpoint is deleted first.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from imagenet_workloads.errors import NO_ROOM

FILE_NAME = "volume-full.json"

# A volume with less than this is full for a writer that needs more at a time.
_AS_GOOD_AS_FULL = 1 << 20


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the volume of a folder."""
    return shutil.disk_usage(folder).free


def full_error(folder: Path, written: Path) -> OSError | None:
    """Return the system's error if a folder has no room for a file; None if it has.

    For a framework's writer, whose own error does not say why it failed.

    Args:
        folder: On the volume.
        written: The file or folder that the writer could not complete; it may not exist.
    """
    if free_bytes(folder) < _AS_GOOD_AS_FULL:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        # The free bytes of a volume can leave out a quota. NFS reports it at the sync.
        with tempfile.TemporaryFile(dir=folder) as probe:
            # A limit for the size of a file is found only where a file has it.
            probe.seek(_largest(written))
            probe.write(bytes(_AS_GOOD_AS_FULL))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error if error.errno in NO_ROOM else None
    return None


def _largest(written: Path) -> int:
    """Return the bytes of a file, or of the largest file of a folder; 0 if there is none."""
    files = [written, *written.rglob("*")] if written.is_dir() else [written]
    return max((path.stat().st_size for path in files if path.is_file()), default=0)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def record(attempt_folder: Path, needed: int) -> None:
    """Record the bytes that must be free, if the volume takes that."""
    path = attempt_folder / FILE_NAME
    with suppress(OSError):
        path.write_text(json.dumps({"bytes": needed}) + "\n", encoding="utf-8")
        with path.open("rb") as file:
            os.fsync(file.fileno())


def recorded(attempt_folders: Iterable[Path]) -> int:
    """Return the most bytes that an attempt recorded; 0 if none has. Damaged files count as 0."""
    return max(map(_recorded, attempt_folders), default=0)


def _recorded(attempt_folder: Path) -> int:
    try:
        return int(json.loads((attempt_folder / FILE_NAME).read_text(encoding="utf-8"))["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
