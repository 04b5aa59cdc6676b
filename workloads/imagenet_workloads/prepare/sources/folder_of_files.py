"""Files of a folder on a volume as a `FileSet`: archives, or Parquet files in folders of splits."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from imagenet_workloads.prepare.sources import compressed_names
from imagenet_workloads.prepare.sources.decompressed import UnnamedFiles
from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import Blob, changed

# Hugging Face's files are in data, or in CONFIGURATION/SPLIT. More folders than these are classes.
_DEEPEST, _MOST_FOLDERS = 2, 20


class FilesOfFolder(FileSet):
    """Files in a folder, with their paths there as names; compressed tars have those of tars."""

    def __init__(
        self,
        root: Path,
        names: Sequence[str],
        open_file: Callable[[Path], Blob],
        scratch: Path | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            root: the folder.
            names: the sorted paths of the files there.
            open_file: opens a file.
            scratch: a folder for the contents of compressed tars; None opens none of these.
        """
        self.where = str(root)
        self.names = names
        self._root = root
        self._open_file = open_file
        self._contents = None if scratch is None else UnnamedFiles(scratch)

    def open(self, name: str) -> Blob:
        """Opens a file, unless a link leads out of the folder.

        Raises:
            InputError: it is gone since it was listed, or cannot be read.
        """
        names = (name,) if self._contents is None else compressed_names.forms(name)
        path = next((one for form in names if (one := self._root / form).exists()), None)
        if path is None:
            raise changed(str(self._root / name), "is gone")
        require_inside(str(path), str(self._root))
        if self._contents is None or path.name == name:
            return self._open_file(path)
        return self._contents.open(str(path), lambda: self._open_file(path))

    def close(self) -> None:
        """Closes the contents of compressed tars."""
        if self._contents is not None:
            self._contents.close()


def files_below(root: Path, suffix: str) -> list[str]:
    """The sorted paths of the files with a suffix in a folder, or in its few folders."""
    return sorted(_below(root, "", suffix, _DEEPEST))


def _below(root: Path, folder: str, suffix: str, depth: int) -> Iterator[str]:
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if is_hidden(entry.name):
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
