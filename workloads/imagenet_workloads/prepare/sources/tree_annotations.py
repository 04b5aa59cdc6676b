"""The annotations beside the images of a tree: Kaggle's Annotations/CLS-LOC, as one file an image.

The file of train/CLASS/NAME.JPEG is train/CLASS/NAME.xml, that of val/NAME.JPEG val/NAME.xml.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.annotations import LARGEST
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.sources.archive import Archive, Kind, Member, prefix
from imagenet_workloads.prepare.sources.tar import TarArchive
from imagenet_workloads.prepare.sources.zip import ZipArchive
from imagenet_workloads.prepare.stores.blob import readable
from imagenet_workloads.prepare.stores.remote import HeaderWindow
from imagenet_workloads.prepare.stores.volume import require_inside

SUFFIX = ".xml"
_IMAGES, _ANNOTATIONS = ("Data", "CLS-LOC"), ("Annotations", "CLS-LOC")
_TOO_LARGE = bytes(LARGEST + 1)


def folder_of(training: str) -> str | None:
    """The folder with the annotations of a tree; None if it is not Kaggle's.

    Args:
        training: the folder of the training images.
    """
    *above, data, task, _ = ("", "", *training.split("/"))
    return "/".join((*above[2:], *_ANNOTATIONS)) if (data, task) == _IMAGES else None


class AnnotationsInArchive:
    """The annotations in a folder of an archive, which stays open.

    They are near each other, so those of a server take few requests.
    """

    def __init__(self, archive: Archive, folder: str) -> None:
        self.where = f"{archive.blob.where}: {folder}"
        reader = ZipArchive if isinstance(archive, ZipArchive) else TarArchive
        self._archive: Archive = reader(HeaderWindow(archive.blob, small=2 * LARGEST))
        self._folder = folder

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yields the name and the content of each."""
        for member in self._archive.members():
            is_here = member.name.startswith(prefix(self._folder)) and member.kind is Kind.FILE
            if is_here and member.name.endswith(SUFFIX):
                yield member.name, self._content(member)

    def _content(self, member: Member) -> bytes:
        if member.size > LARGEST:
            return _TOO_LARGE
        try:
            return self._archive.read(member.name, member.offset, member.size)
        except DamagedImageError:
            # No XML, so it counts as damaged.
            return b""


class AnnotationsInFolder:
    """The annotations in a folder of a volume."""

    def __init__(self, root: Path, folder: str) -> None:
        """Reads nothing yet.

        Args:
            root: of the tree; links out of it are refused.
            folder: from there.
        """
        self.where = str(root / folder)
        self._root = root

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yields the path and the content of each.

        Raises:
            InputError: one cannot be read, or is a link out of the tree.
        """
        require_inside(self.where, str(self._root))
        for folder, folders, names in os.walk(self.where):
            folders.sort()
            for name in sorted(names):
                if name.endswith(SUFFIX):
                    yield f"{folder}/{name}", self._content(Path(folder, name))

    def _content(self, path: Path) -> bytes:
        if path.is_symlink():
            require_inside(str(path), str(self._root))
        try:
            with os.fdopen(regular_files.open_file(path), "rb") as file:
                return file.read(LARGEST + 1)
        except OSError as error:
            raise InputError(f"{readable(str(path))}: cannot be read: {error.strerror}") from error
