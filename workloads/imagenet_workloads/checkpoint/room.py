"""The room that a checkpoint needs on the output volume.

An attempt that lacks room records in its folder how many bytes must be free. Later attempts compare
that, and the size of the newest checkpoint, with the free bytes before they load anything. A file
can be recorded on a full volume, because the incomplete checkpoint is deleted first.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.errors import StorageError

FILE_NAME = "volume-full.json"


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def record(attempt_folder: Path, needed: int) -> None:
    """Record the bytes that must be free, if the volume takes that."""
    path, text = attempt_folder / FILE_NAME, json.dumps({"bytes": needed}) + "\n"
    with suppress(StorageError):
        files.write_output(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def recorded(attempt_folders: Iterable[Path]) -> int:
    """Return the most bytes that an attempt recorded; 0 if none has. Damaged files count as 0."""
    return max(map(_recorded, attempt_folders), default=0)


def _recorded(attempt_folder: Path) -> int:
    try:
        return int(json.loads((attempt_folder / FILE_NAME).read_text(encoding="utf-8"))["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
