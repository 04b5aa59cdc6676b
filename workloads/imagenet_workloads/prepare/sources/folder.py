"""Folders of images: class folders, in which images may be deeper, or flat folders."""

import os
import stat
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.layout import Layout
from imagenet_workloads.prepare.sources.links import Links, is_inside, real_path_of
from imagenet_workloads.prepare.sources.source import (
    Image,
    Notes,
    Source,
    changed,
    class_name_in,
    is_image,
    readable,
)

# Entries of a volume's root that are not the user's data.
NOT_CLASSES = frozenset(("lost+found",))
# A folder with this many names is listed in this many parts.
_MANY, _PARTS = 10_000, 8


class Folder(Source):
    """Each folder in the root is a class. Holds some names of one folder at a time."""

    kind = "folder of folders"

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root
        self._real_root = os.path.realpath(root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by class, and in a class by name."""
        total = sum(1 for _ in _listed(self._root))
        links, layout, stray = Links(self._root), Layout(), ""
        for number, name in enumerate(names(self._root)):
            notes.share = min(1.0, number / max(1, total))
            if name in NOT_CLASSES or name.startswith("."):
                continue
            status = links.look(f"{self._root}/{name}", is_wanted=False)
            if status is None or not stat.S_ISDIR(status.st_mode):
                notes.pass_over(name)
                stray = stray or (name if is_image(name) else "")
                continue
            class_name = class_name_in(name, str(self._root))
            images = 0
            for image in self._scan_class(class_name, links, notes):
                images += 1
                layout.add(image.name.rpartition("/")[0])
                yield image
            if images == 0:
                notes.empty.append(class_name)
        self._require_classes(layout, stray)

    def _require_classes(self, layout: Layout, stray: str) -> None:
        if stray and not layout.has_images:
            raise InputError(
                f"{self._root}: its images (such as {readable(stray)}) are in no folders, so they "
                f"have no classes; write --source {self._root.parent} (path), or give them as "
                "--validation-source (validation.path) with --validation-labels "
                "(validation.labels)"
            )
        mistake = layout.mistake()
        if mistake is None:
            return
        what, root = mistake
        remedy = f"write {self._root / root} (path)" if root else "give class folders"
        raise InputError(f"{self._root}: {what}; {remedy}")

    def _scan_class(self, class_name: str, links: Links, notes: Notes) -> Iterator[Image]:
        """Yields the images of one class; folders may be nested as deep as paths go."""
        below = [self._enter(class_name, None, links)]
        while below:
            real_path, paths = below[-1]
            name = next(paths, None)
            if name is None:
                below.pop()
                continue
            named_like_image = is_image(name)
            hidden = name.rpartition("/")[2].startswith(".")
            status = None if hidden else links.look(f"{self._root}/{name}", named_like_image)
            if status is not None and stat.S_ISDIR(status.st_mode):
                below.append(self._enter(name, real_path, links))
            elif status is not None and named_like_image and stat.S_ISREG(status.st_mode):
                yield _image(class_name, name, status)
            else:
                notes.pass_over(name)

    def _enter(self, folder: str, parent: str | None, links: Links) -> tuple[str, Iterator[str]]:
        real_path = links.enter(f"{self._root}/{folder}", parent)
        return real_path, (f"{folder}/{base}" for base in names(self._root / folder))

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return _read_file(self._root, self._real_root, name, size)


class FlatFolder(Source):
    """Images directly in a folder; `labels` reads their classes."""

    kind = "flat folder"

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root
        self._real_root = os.path.realpath(root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in an order that depends on their names alone."""
        links = Links(self._root)
        for name in names(self._root):
            status = links.look(f"{self._root}/{name}", is_wanted=True) if is_image(name) else None
            if status is not None and stat.S_ISREG(status.st_mode):
                yield _image("", name, status)
            else:
                notes.pass_over(name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return _read_file(self._root, self._real_root, name, size)


def _image(class_name: str, name: str, status: os.stat_result) -> Image:
    return Image(class_name, name, 0, status.st_size, status.st_mtime_ns)


def names(folder: Path) -> Iterator[str]:
    """The names in a folder, in an order that depends on the names alone.

    A few names are sorted. Many names are divided into parts by checksum; each part is listed and
    sorted in turn. The names of half a million images would take more memory than the plan.

    Raises:
        InputError: it cannot be listed; the message has its owner and this process's user.
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


def _read_file(root: Path, real_root: str, name: str, size: int) -> bytes:
    """The bytes of one image in a separate file.

    Args:
        root: the source's.
        real_root: the real path of the root.
        name: the image's path below the root.
        size: the image's size in the scan.

    Raises:
        InputError: it is gone, has another size than in the scan, or is no longer in the source.
        PermissionError: this process may not read it.
    """
    # Creating Path and file objects would take longer than reading.
    path = f"{root}/{name}"
    try:
        descriptor = regular_files.open_file(path)
    except FileNotFoundError:
        raise changed(path, "is gone") from None
    try:
        if not is_inside(real_path_of(descriptor, path), real_root):
            raise changed(path, "leads out of the source")
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
