"""How folders hold images: in class folders, where they may lie deeper, or flat."""

import os
import stat
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import (
    Image,
    Notes,
    Source,
    changed,
    class_name_in,
    is_image,
)

# What a volume's root holds beside anybody's data.
_NOT_CLASSES = frozenset(("lost+found",))
# From so many names on, a folder is listed in so many parts.
_MANY, _PARTS = 10_000, 8


class Folder(Source):
    """Each folder directly in the root is a class. Holds some names of one folder at a time."""

    kind = "folder of folders"

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by class, and in a class by name."""
        total = sum(1 for _ in _listed(self._root))
        for number, name in enumerate(names(self._root)):
            notes.share = min(1.0, number / max(1, total))
            if name in _NOT_CLASSES or name.startswith("."):
                continue
            if not (self._root / name).is_dir():
                notes.ignored += 1
                continue
            class_name = class_name_in(name, str(self._root))
            images = 0
            for image in self._scan_folder(class_name, class_name, notes):
                images += 1
                yield image
            if images == 0:
                notes.empty.append(class_name)

    def _scan_folder(self, class_name: str, folder: str, notes: Notes) -> Iterator[Image]:
        for base in names(self._root / folder):
            name = f"{folder}/{base}"
            image = image_at(self._root, class_name, name) if is_image(name) else None
            if image is not None:
                yield image
            elif not base.startswith(".") and (self._root / name).is_dir():
                yield from self._scan_folder(class_name, name, notes)
            else:
                notes.ignored += 1

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return read_file(self._root, name, size)


class FlatFolder(Source):
    """Images directly in a folder; `labels` reads their classes."""

    kind = "flat folder"

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in an order that depends on their names alone."""
        for name in names(self._root):
            image = image_at(self._root, "", name) if is_image(name) else None
            if image is not None:
                yield image
            else:
                notes.ignored += 1

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return read_file(self._root, name, size)


def names(folder: Path) -> Iterator[str]:
    """The names in a folder, in an order that depends on them alone: sorted, if they are not many.

    Many are gone through once for each of a few parts, drawn by checksums and sorted in
    themselves: the names of half a million images would take more memory than all that is kept.

    Raises:
        InputError: it cannot be listed; the message names its owner and ours.
    """
    first = sorted(islice(_listed(folder), _MANY))
    if len(first) < _MANY:
        yield from first
        return
    del first
    for part in range(_PARTS):
        yield from sorted(
            name for name in _listed(folder) if zlib.crc32(os.fsencode(name)) % _PARTS == part
        )


def _listed(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                yield entry.name
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be listed: {error.strerror}{_permissions(folder)}"
        ) from error


def image_at(root: Path, class_name: str, name: str) -> Image | None:
    """The image that is a file of its own, None where it is no file; links are followed.

    Raises:
        InputError: it cannot be looked at, such as a link to nothing.
    """
    path = f"{root}/{name}"
    try:
        # Path's own would take longer than the system.
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        raise InputError(
            f"{path}: cannot be looked at: {error.strerror}; remove it or mend it"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        return None
    return Image(class_name, name, 0, status.st_size, status.st_mtime_ns)


def read_file(root: Path, name: str, size: int) -> bytes:
    """The bytes of one image that is a file of its own.

    Raises:
        InputError: it is gone, or of another size than when it was scanned.
        PermissionError: it may not be read.
    """
    # Paths and file objects would take longer than the reading.
    path = f"{root}/{name}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise changed(path, "is gone") from None
    try:
        data = os.read(descriptor, size + 1)
        if len(data) != size:
            found = os.fstat(descriptor).st_size
            raise changed(path, f"has {found} bytes in place of {size}")
        return data
    finally:
        os.close(descriptor)


def _permissions(folder: Path) -> str:
    try:
        status = folder.stat()
    except OSError:
        return ""
    return (
        f" (its owner is {status.st_uid}:{status.st_gid}, mode {stat.filemode(status.st_mode)}; "
        f"this process is {os.geteuid()}:{os.getegid()}); let this user read it"
    )
