"""A folder of class folders; images may lie deeper inside those."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.interface import (
    Image,
    Notes,
    changed,
    class_name_in,
    is_image,
)

# What a volume's root holds beside anybody's data.
_NOT_CLASSES = frozenset(("lost+found",))


class Folder:
    """Each folder directly in the root is a class. Holds the names of one folder at a time."""

    kind = "folder of folders"

    def __init__(self, root: Path) -> None:
        self._root = root

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by class, and in a class by name."""
        for entry in entries(self._root):
            if entry.name in _NOT_CLASSES or entry.name.startswith("."):
                continue
            if not entry.is_dir():
                notes.ignored += 1
                continue
            class_name = class_name_in(entry.name, str(self._root))
            images = 0
            for image in self._scan_folder(class_name, Path(entry.path), class_name, notes):
                images += 1
                yield image
            if images == 0:
                notes.empty.append(class_name)

    def _scan_folder(
        self, class_name: str, folder: Path, prefix: str, notes: Notes
    ) -> Iterator[Image]:
        for entry in entries(folder):
            name = f"{prefix}/{entry.name}"
            if entry.name.startswith("."):
                notes.ignored += 1
            elif entry.is_dir():
                yield from self._scan_folder(class_name, Path(entry.path), name, notes)
            elif is_image(entry.name):
                yield image_at(entry, class_name, name)
            else:
                notes.ignored += 1

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return read_file(self._root, name, size)

    def close(self) -> None:
        """Nothing is held open."""


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name.

    Raises:
        InputError: it cannot be listed; the message names its owner and ours.
    """
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be listed: {error.strerror}{_permissions(folder)}"
        ) from error


def image_at(entry: os.DirEntry[str], class_name: str, name: str) -> Image:
    """The image that is a file of its own; links are followed.

    Raises:
        InputError: it cannot be looked at, such as a link to nothing.
    """
    try:
        status = entry.stat()
    except OSError as error:
        raise InputError(
            f"{entry.path}: cannot be looked at: {error.strerror}; remove it or mend it"
        ) from error
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
