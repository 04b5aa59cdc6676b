"""Files of a folder on a volume as a `FileSet`: archives, or Parquet files in folders of splits."""

from collections.abc import Callable, Sequence
from pathlib import Path

from imagenet_workloads.prepare.sources import compressed_names
from imagenet_workloads.prepare.sources.decompressed import UnnamedFiles
from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.folder import FolderListing
from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import Blob, changed


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

    def label_file(self, path: str) -> LabelFile | None:
        """A file of labels in the folder, unless it is a link that leads out of it."""
        return FolderListing(self._root).file(path)

    def close(self) -> None:
        """Closes the contents of compressed tars."""
        if self._contents is not None:
            self._contents.close()
