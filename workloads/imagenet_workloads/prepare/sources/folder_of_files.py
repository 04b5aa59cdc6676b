"""Files of a folder on a volume as a `FileSet`: archives, or Parquet files in folders of splits."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.folder import NOT_CLASSES
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import Blob, changed

# Hugging Face's files are in data, or in CONFIGURATION/SPLIT. More folders than these are classes.
_DEEPEST, _MOST_FOLDERS = 2, 20


class FilesOfFolder(FileSet):
    """Files in a folder, with their paths there as names."""

    def __init__(self, root: Path, names: Sequence[str], open_file: Callable[[Path], Blob]) -> None:
        """Opens nothing yet.

        Args:
            root: the folder.
            names: the sorted paths of the files there.
            open_file: opens a file.
        """
        self.where = str(root)
        self.names = names
        self._root = root
        self._open_file = open_file

    def open(self, name: str) -> Blob:
        """Opens a file, unless a link leads out of the folder.

        Raises:
            InputError: it is gone since it was listed, or cannot be read.
        """
        path = self._root / name
        if not path.exists():
            raise changed(str(path), "is gone")
        require_inside(str(path), str(self._root))
        return self._open_file(path)


def files_below(root: Path, suffix: str) -> list[str]:
    """The sorted paths of the files with a suffix in a folder, or in its few folders."""
    return sorted(_below(root, "", suffix, _DEEPEST))


def _below(root: Path, folder: str, suffix: str, depth: int) -> Iterator[str]:
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in NOT_CLASSES:
                    continue
                if entry.name.endswith(suffix):
                    files.append(f"{folder}{entry.name}")
                elif entry.is_dir() and len(folders) <= _MOST_FOLDERS:
                    folders.append(f"{folder}{entry.name}/")
    except OSError:
        # The scan says why.
        return
    yield from files
    if not files and depth and len(folders) <= _MOST_FOLDERS:
        for one in folders:
            yield from _below(root, one, suffix, depth - 1)
