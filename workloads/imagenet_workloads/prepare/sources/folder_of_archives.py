"""What a folder on a volume holds before it is listed: images, archives, CIFAR or Parquet files.

Archives may be of a class each, of a split each, or shards. One archive a split is ILSVRC2012 as
image-net.org gives it, with its development kit.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads.prepare import entry_names as trees
from imagenet_workloads.prepare.containers.archives import FORMATS, ArchiveSet
from imagenet_workloads.prepare.entry_names import is_hidden, is_image
from imagenet_workloads.prepare.layouts.choice import CIFAR, PARQUET, Choice
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.layouts.file_splits import splits_of_archives
from imagenet_workloads.prepare.layouts.survey import Contents
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.volume import FilesOfFolder, unlistable

_KIT = "ILSVRC2012_devkit"
# Archives may lie in folders of their splits.
_DEEPEST = 3


class FolderContents(Contents):
    """What a folder holds, up to the first image in a folder of it unless the whole is wanted.

    The listing finds what comes after it.

    Attributes:
        has_folders: whether an image lies in a folder of it: class folders count, whatever is left
            over beside them.
        others: the paths of files that are none of these, where archives may be.
    """

    def __init__(self, root: Path, choice: Choice) -> None:
        super().__init__(str(root), ("--source", f"{root}/", "path"))
        self.has_folders = False
        self.others: list[str] = []
        self._root = root
        is_whole = choice.layout in (CIFAR, PARQUET)
        for folder, names in _walk(root):
            is_near = folder.count("/") + bool(folder) <= _DEEPEST
            for name in names:
                if name.startswith("."):
                    continue
                path = trees.join(folder, name)
                archives = (*FORMATS, *compressed.SUFFIXES) if is_near else ()
                self.add(path, archives)
                self.has_folders |= bool(folder) and is_image(name)
                if is_near:
                    self.others.append(path)
            if self.has_folders and not is_whole:
                return

    def open_archives(self, scratch: Path | None, choice: Choice) -> DecidedSource | None:
        """Opens the archives; None if they are all compressed, and there is no scratch.

        Args:
            scratch: a folder for the contents of compressed tars; None passes these over.
            choice: what the user wrote of the layout.

        Raises:
            InputError: they are of several kinds, or a tar is there twice.
        """
        listed = [
            path
            for path in sorted(self.archives)
            if path.endswith(tuple(FORMATS)) or (scratch is not None and _is_compressed(path))
        ]
        names = sorted(compressed.by_plain_name(listed, str(self._root)))
        if not names:
            return None
        files = FilesOfFolder(self._root, names, scratch)
        beside = sorted(set(self.others) - {*listed})
        return DecidedSource(
            ArchiveSet(files, names, others=beside, splits=splits_of_archives(names, choice)),
            choice,
        )


def _is_compressed(path: str) -> bool:
    return compressed.is_compressed_tar(path.rpartition("/")[2])


def _walk(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields the path of each folder from a root, and the sorted names of its files."""
    folders = [""]
    while folders:
        folder = folders.pop()
        names, below = [], []
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        # It may lead to a folder that is read anyway, or to itself.
                        names += [] if Path(entry.path).is_dir() else [entry.name]
                    elif not entry.is_dir():
                        names.append(entry.name)
                    elif not is_hidden(entry.name) and not entry.name.startswith(_KIT):
                        below.append(trees.join(folder, entry.name))
        except OSError as error:
            raise unlistable(root / folder, error) from error
        yield folder, sorted(names)
        folders += sorted(below, reverse=True)
