"""The layouts of archives: an archive of class archives, one of class folders, or a flat one.

All three read a `Blob`, so an archive can come from anything that serves ranges of bytes.
`archives` finds the layout of one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources.archive import (
    Archive,
    Member,
    holds_image,
    is_file,
    pass_over,
    prefix,
    require_data,
)
from imagenet_workloads.prepare.sources.layout import Layout
from imagenet_workloads.prepare.sources.source import Image, Notes, Source, class_name_in
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive
from imagenet_workloads.prepare.sources.zip import ZipArchive

# Inner archives of a volume. A network file system may take 20 ms for each header.
LISTED_AT_ONCE = 64

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}


def require_uncompressed(start: bytes, where: str) -> None:
    """Checks the first bytes of an archive.

    Raises:
        InputError: they are those of a compressed file.
    """
    for magic, (format, program) in _COMPRESSED.items():
        if start.startswith(magic):
            raise InputError(
                f"{where}: is compressed ({format}), and images are read in place, by "
                f"offset; decompress it first by {program}"
            )


class ArchiveSource(Source):
    """Images in an archive, which it closes.

    Attributes:
        layout: its kind, by the format of the archive.
        archive: the archive.
        root: the folder in it that is the source's root; None by default.
    """

    layout: ClassVar[str]

    def __init__(self, archive: Archive, root: str | None = None) -> None:
        """Takes over an archive.

        Args:
            archive: the archive.
            root: the folder in it that is the source's root; None by default.
        """
        self.where = archive.blob.where
        self.kind = self.layout.format(outer=archive.format)
        self.archive = archive
        self.root = root

    def members(self) -> Iterator[Member]:
        """The members below the root."""
        start = prefix(self.root)
        return (one for one in self.archive.members() if one.name.startswith(start))

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return self.archive.read(name, offset, size)

    def close(self) -> None:
        """Closes the blob."""
        self.archive.blob.close()

    def share(self, member: Member) -> float:
        """The share of the archive before a member."""
        return min(1.0, member.offset / self.archive.blob.size)


class ArchiveOfArchives(ArchiveSource):
    """One archive a class, as fall11_whole.tar: its name without `.tar` or `.zip` is the class."""

    layout = "{outer} of archives"

    def __init__(
        self, archive: Archive, inner: type[TarArchive | ZipArchive], root: str | None
    ) -> None:
        """Takes over an archive.

        Args:
            archive: the outer archive.
            inner: the kind of those in it.
            root: the folder in it that is the source's root; None by default.
        """
        super().__init__(archive, root)
        self.kind = f"{archive.format} of {inner.format}s"
        self._inner = inner
        self._suffix = f".{inner.format}"
        self._reader = inner(archive.blob)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image, at its offset in the outer archive."""
        return self._reader.read(name, offset, size)

    @property
    def lists_at_once(self) -> int:
        """The inner archives that are listed at the same time, one request each."""
        return LISTED_AT_ONCE if self.reads_at_once == 1 else self.reads_at_once

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """The version of the outer archive."""
        return self.version

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images of each inner archive, in the order of the outer one.

        Several are listed at a time, because a volume may be behind a network too.
        """
        seen: dict[str, None] = {}
        found = self._class_archives(seen, notes)
        for outer, images, own in map_in_order(self._listed, found, self.lists_at_once):
            notes.share = self.share(outer)
            notes.add(own)
            yield from map(Image._make, json.loads(images))
        self._require_classes(seen)

    def scan_in_turn(self, notes: Notes) -> Iterator[Image]:
        """The images of one inner archive after the other, each with the requests of `scan`."""
        for class_name, outer in self._class_archives({}, notes):
            for image in _in_new_thread(self._scan_class(class_name, outer, notes)):
                notes.share = min(1.0, image.offset / self.archive.blob.size)
                yield image

    def _listed(self, found: tuple[str, Member]) -> tuple[Member, str, Notes]:
        """Lists an inner archive: its images as JSON, which takes a fifth of their memory."""
        class_name, outer = found

        def scan(notes: Notes) -> str:
            return json.dumps(list(self._scan_class(class_name, outer, notes)))

        images, own = self.journal.listed(json.dumps(outer[:1] + outer[2:]), scan)
        return outer, images, own

    def _class_archives(self, seen: dict[str, None], notes: Notes) -> Iterator[tuple[str, Member]]:
        """Yields each class with its archive, and adds the class to `seen`."""
        for outer in self.members():
            base = outer.name.rpartition("/")[2]
            if base.startswith(".") or not base.endswith(self._suffix) or not is_file(outer):
                pass_over(outer, notes)
                continue
            require_data(outer, self.where)
            class_name = class_name_in(base.removesuffix(self._suffix), self.where)
            if class_name in seen:
                raise InputError(
                    f"{self.where}: holds two archives called {base}; a class must be in one"
                )
            seen[class_name] = None
            yield class_name, outer

    def _require_classes(self, seen: Iterable[str]) -> None:
        layout = Layout()
        for class_name in seen:
            layout.add(class_name)
        mistake = layout.mistake_without_root()
        if mistake is not None:
            training = layout.training()
            inside = "" if training is None else f"{prefix(self.root)}{training}{self._suffix}"
            raise InputError(f"{self.where}: {mistake[0]}; {_remedy(inside)}")

    def _scan_class(self, class_name: str, outer: Member, notes: Notes) -> Iterator[Image]:
        images = 0
        # The archive of a class that was not downloaded can have 0 bytes.
        for member, start in self._members_of(outer) if outer.size else ():
            if not holds_image(member):
                pass_over(member, notes)
                continue
            require_data(member, f"{self.where}: {outer.name}")
            images += 1
            name = f"{outer.name}/{member.name}"
            yield Image(class_name, name, start + member.offset, member.size, member.mtime)
        if images == 0:
            notes.empty.append(class_name)

    def _members_of(self, outer: Member) -> Iterator[tuple[Member, int]]:
        """The members of an inner archive, and where that starts."""
        part = self.archive.part(outer)
        if self._inner is TarArchive:
            require_uncompressed(part.read(0, BLOCK), part.where)
        return ((member, part.start) for member in self._inner(part).members())


def _in_new_thread(images: Iterator[Image]) -> Iterator[Image]:
    """Yields images that another thread lists, each when it is asked for.

    A thread reads ahead of its own last header. In one thread, a request would have the headers of
    many small archives; in the threads of `scan`, no two archives share one.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="in-turn") as thread:
        while (image := thread.submit(next, images, None).result()) is not None:
            yield image


class ArchiveOfFolders(ArchiveSource):
    """The folders of the root are the classes; images may lie deeper in them.

    The default root is the folder that holds all folders with images.
    """

    layout = "{outer} of folders"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        folders: dict[str, str] = {}
        layout = Layout()
        start = prefix(self.root)
        for member in self.members():
            name = member.name.removeprefix(start)
            if not holds_image(member) or "/" not in name:
                pass_over(member, notes)
                continue
            require_data(member, self.where)
            folder = name.rpartition("/")[0]
            layout.add(folder)
            class_name = self._class_of(folder, folders)
            notes.share = self.share(member)
            yield Image(class_name, member.name, member.offset, member.size, member.mtime)
        self._require_classes(layout)

    def _class_of(self, folder: str, folders: dict[str, str]) -> str:
        if self.root is not None:
            return class_name_in(folder.partition("/")[0], self.where)
        class_name = folder.rpartition("/")[2]
        if folders.get(class_name) != folder:
            # Merging train/n01440764 and val/n01440764 would mix the splits.
            if class_name in folders:
                layout = Layout()
                for found in (*folders.values(), folder):
                    layout.add(found)
                _, root = layout.mistake_without_root() or ("", "")
                raise InputError(
                    f"{self.where}: holds two folders called {class_name}, "
                    f"{folders[class_name]} and {folder}; {_remedy(root)}"
                )
            folders[class_name_in(class_name, self.where)] = folder
        return class_name

    def _require_classes(self, layout: Layout) -> None:
        mistake = layout.mistake_without_root() if self.root is None else layout.mistake()
        if mistake is not None:
            what, root = mistake
            inside = f"{prefix(self.root)}{root}" if root else ""
            raise InputError(f"{self.where}: {what}; {_remedy(inside)}")


def _remedy(root: str) -> str:
    archive = "make an archive of the training images alone"
    return f"write --path-in-archive {root} (pathInArchive), or {archive}" if root else archive


class FlatArchive(ArchiveSource):
    """Images without classes, as ILSVRC2012_img_val.tar; `labels` reads their classes."""

    layout = "flat {outer}"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        for member in self.members():
            if not holds_image(member):
                pass_over(member, notes)
                continue
            require_data(member, self.where)
            notes.share = self.share(member)
            yield Image("", member.name, member.offset, member.size, member.mtime)
