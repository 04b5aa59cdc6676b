"""The images of one archive: its own, or those of the archives in it.

It reads a `Blob`, so an archive can come from anything that serves ranges of bytes.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources import webdataset
from imagenet_workloads.prepare.sources.archive import (
    Archive,
    Kind,
    Member,
    holds_image,
    is_file,
    pass_over,
    prefix,
    require_data,
)
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.source import (
    Annotations,
    Image,
    Journal,
    Listing,
    Naming,
    Notes,
    Source,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive
from imagenet_workloads.prepare.sources.tree_annotations import AnnotationsInArchive
from imagenet_workloads.prepare.sources.zip import ZipArchive
from imagenet_workloads.prepare.stores.blob import LabelFile, readable
from imagenet_workloads.prepare.stores.compressed import require_uncompressed

# Inner archives of a volume. A network file system may take 20 ms for each header.
LISTED_AT_ONCE = 64

FORMATS: dict[str, type[TarArchive | ZipArchive]] = {".tar": TarArchive, ".zip": ZipArchive}

FOLDERS = tuple(f"{one.format} of folders" for one in FORMATS.values())

FLAT = tuple(f"flat {one.format}" for one in FORMATS.values())

OF_ARCHIVES = tuple(
    f"{outer.format} of {inner.format}s" for outer in FORMATS.values() for inner in FORMATS.values()
)

# Small files are kept by their paths, as they may be tables of labels.
_MOST_FILES = 100_000


class ArchiveListing(Listing):
    """Every image of an archive, which it closes.

    If its images are in no folders beside them, the archives in it are folders with their names.
    """

    def __init__(self, archive: Archive, root: str | None = None, name: str = "") -> None:
        """Takes over an archive.

        Args:
            archive: the archive.
            root: the folder in it that is listed; None for all.
            name: of the archive, with which the names of images begin that have labels beside
                them, as in a folder of shards.
        """
        self.where = archive.blob.where
        self.kind = f"{archive.format} of folders"
        self.archive = archive
        self.start = root or ""
        self._name = name
        self._inner: type[TarArchive | ZipArchive] | None = None
        self._files: dict[str, Member] = {}

    @property
    def lists_at_once(self) -> int:
        """The inner archives that are listed at the same time, one request each."""
        return LISTED_AT_ONCE if self.reads_at_once == 1 else self.reads_at_once

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """The version of the archive."""
        return self.version

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive, then those of the archives in it.

        Several of these are listed at a time, because a volume may be behind a network too.
        """
        archives: list[Member] = []
        folders: dict[str, None] = {}
        for image in self._outer_images(archives, notes):
            folders[image.name.rpartition("/")[0]] = None
            notes.share = min(1.0, image.offset / self.archive.blob.size)
            yield image
        beside = {member.name.rpartition("/")[0] for member in archives}
        if not folders.keys() <= beside:
            for member in archives:
                pass_over(member, notes)
            return
        self._inner = format_of(archives, self.where)
        found = InnerArchives(self.archive, archives, self.journal, self.lists_at_once)
        yield from found.images(notes)

    def scan_in_turn(self, notes: Notes) -> Iterator[Image]:
        """The images in order, those of inner archives each with the requests of `scan`."""
        for member in self._members(notes):
            if is_archive(member):
                self._inner = format_of([member], self.where)
                found = InnerArchives(self.archive, [member])
                for image in _in_new_thread(found.images_of(member, notes)):
                    notes.share = min(1.0, image.offset / self.archive.blob.size)
                    yield image
            elif holds_image(member):
                notes.share = min(1.0, member.offset / self.archive.blob.size)
                yield Image("", member.name, member.offset, member.size, member.mtime)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image, at its offset in the outer archive."""
        reader = self.archive if self._inner is None else self._inner(self.archive.blob)
        return reader.read(name, offset, size)

    def close(self) -> None:
        """Closes the blob."""
        self.archive.blob.close()

    def file(self, path: str) -> LabelFile | None:
        """A file in the archive, inside the listed folder or above it."""
        member = self._files.get(path)
        return None if member is None else _MemberFile(self.archive, member, self)

    def naming(self, roots: Sequence[str], *, has_labels: bool) -> Naming:
        """The names of images are their paths; those in a shard begin with its name."""
        del roots
        is_shard = has_labels and self._name and self._inner is None
        return Naming("", f"{self._name}/" if is_shard else "")

    def fields_of_split(self, roots: Sequence[str]) -> Mapping[str, Any]:
        """The folder: flat images in it are those of the archive, and no other source's."""
        return {"within": roots[0]}

    def annotations(self, folder: str) -> Annotations:
        """The annotations in a folder of the archive."""
        return AnnotationsInArchive(self.archive, folder)

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        """The kind in plans."""
        if self._inner is not None:
            return f"{self.archive.format} of {self._inner.format}s"
        return f"flat {self.archive.format}" if is_flat else f"{self.archive.format} of folders"

    def _outer_images(self, archives: list[Member], notes: Notes) -> Iterator[Image]:
        """Yields the images of the archive, and adds the archives in it to a list."""
        start = prefix(self.start)

        def others() -> Iterator[Member]:
            for member in self._members(notes):
                if is_archive(member):
                    archives.append(member)
                else:
                    yield member

        def may_be_labelled(member: Member) -> bool:
            # Labels lie beside images that are in no folders; elsewhere, folders are the classes.
            is_tar = isinstance(self.archive, TarArchive)
            return is_tar and "/" not in member.name.removeprefix(start)

        yield from webdataset.images(self.archive, others(), "", notes, may_be_labelled)

    def _plain(self, member: Member, notes: Notes) -> Iterator[Image]:
        if not holds_image(member):
            pass_over(member, notes)
            return
        require_data(member, self.where)
        yield Image("", member.name, member.offset, member.size, member.mtime)

    def _members(self, notes: Notes) -> Iterator[Member]:
        """The members below the root that are in no hidden folder; keeps the small files."""
        start = prefix(self.start)
        for member in self.archive.members():
            folder, _, base = member.name.rpartition("/")
            may_label = base in trees.LABEL_FILE_NAMES or base.endswith(trees.TABLES)
            if may_label and member.kind is Kind.FILE and len(self._files) < _MOST_FILES:
                self._files[member.name] = member
            if not member.name.startswith(start):
                continue
            inside = folder.removeprefix(self.start)
            if is_hidden(inside) or (member.kind is Kind.FOLDER and is_hidden(base)):
                notes.hide(member.name)
            else:
                yield member


def format_of(archives: Sequence[Member], where: str) -> type[TarArchive | ZipArchive] | None:
    """The format of the archives in an archive; None without any.

    Raises:
        InputError: they are of several.
    """
    found = {member.name[-4:] for member in archives}
    if len(found) > 1:
        raise InputError(f"{where}: holds tars and zips; put those of the classes into one archive")
    return FORMATS[found.pop()] if found else None


class InnerArchives:
    """The images of the archives in an archive, and of those in them."""

    def __init__(
        self,
        archive: Archive,
        members: Sequence[Member],
        journal: Journal | None = None,
        at_once: int = 1,
        prefix: str = "",
    ) -> None:
        """Lists nothing yet.

        Args:
            archive: the outer archive.
            members: of it, the inner archives.
            journal: where those are that are listed already.
            at_once: the inner archives that are listed at the same time.
            prefix: of the images' names.
        """
        self._archive = archive
        self._members = members
        self._journal = journal or Journal()
        self._at_once = at_once
        self._prefix = prefix

    def images(self, notes: Notes) -> Iterator[Image]:
        """Yields the images of one archive after the other."""
        listed = map_in_order(self._listed, self._members, self._at_once)
        for outer, images, own in listed:
            notes.share = min(1.0, outer.offset / self._archive.blob.size)
            notes.add(own)
            path = f"{self._prefix}{outer.name}"
            if notes.survey is not None:
                notes.survey.add_archive(path)
            yield from listed_images(images, path, notes)

    def _listed(self, outer: Member) -> tuple[Member, str, Notes]:
        """Lists an inner archive: its images as JSON, which takes a fifth of their memory."""

        def scan(notes: Notes) -> str:
            return json.dumps(list(self.images_of(outer, notes)))

        images, own = self._journal.listed(json.dumps(outer[:1] + outer[2:]), scan)
        return outer, images, own

    def images_of(self, outer: Member, notes: Notes) -> Iterator[Image]:
        """Yields the images of an inner archive.

        Raises:
            InputError: it is compressed or damaged, or an image in it cannot be read.
        """
        require_data(outer, self._archive.blob.where)
        prefix = f"{self._prefix}{outer.name}/"
        images = 0
        # The archive of a class that was not downloaded can have 0 bytes.
        if outer.size:
            part = self._archive.part(outer)
            is_tar = outer.name.endswith(".tar")
            if is_tar:
                require_uncompressed(part.read(0, BLOCK), part.where)
            inner = FORMATS[outer.name[-4:]](part)
            deeper: list[Member] = []
            members = _without_archives(inner, deeper, notes)
            for image in webdataset.images(inner, members, prefix, notes, lambda _: is_tar):
                images += 1
                yield image._replace(offset=part.start + image.offset)
            if images:
                for member in deeper:
                    pass_over(member, notes)
            elif deeper:
                format_of(deeper, part.where)
                for image in InnerArchives(inner, deeper, prefix=prefix).images(notes):
                    images += 1
                    yield image._replace(offset=part.start + image.offset)
        if images == 0:
            notes.empty.append(f"{self._prefix}{outer.name}")


def listed_images(images: str, archive: str, notes: Notes) -> Iterator[Image]:
    """Yields images of an archive from JSON; their names say which archives are in it."""
    found = json.loads(images)
    inside = f"{archive}/"
    deeper = sum(images.count(f"{one}/") - len(found) * inside.count(f"{one}/") for one in FORMATS)
    if notes.survey is None or deeper <= 0:
        yield from map(Image._make, found)
        return
    last = ""
    for image in map(Image._make, found):
        starts = (image.name.find(f"{suffix}/", len(archive)) for suffix in FORMATS)
        end = min((start for start in starts if start >= 0), default=-1) + 4
        if end > len(archive) + 1 and image.name[:end] != last:
            last = image.name[:end]
            notes.survey.add_archive(last)
        yield image


def _without_archives(archive: Archive, archives: list[Member], notes: Notes) -> Iterator[Member]:
    """The members of an inner archive that are in no hidden folder; archives go into a list."""
    for member in archive.members():
        if is_hidden(member.name.rpartition("/")[0]):
            pass_over(member, notes)
        elif is_archive(member):
            archives.append(member)
        else:
            yield member


class ArchiveReader(Source):
    """The images of a plan in an archive, or in the archives in it."""

    def __init__(self, archive: Archive, kind: str) -> None:
        """Takes over an archive, with the kind of the plan."""
        self.where = archive.blob.where
        self.kind = kind
        self._archive = archive
        inner = next((one for one in FORMATS.values() if kind.endswith(f" of {one.format}s")), None)
        self._reader: Archive = archive if inner is None else inner(archive.blob)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Is not called: the plan has the images."""
        raise NotImplementedError

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image, at its offset in the outer archive."""
        return self._reader.read(name, offset, size)

    def close(self) -> None:
        """Closes the blob."""
        self._archive.blob.close()


class FlatArchive(ArchiveListing):
    """Images without classes, as ILSVRC2012_img_val.tar; `labels` reads their classes."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive)
        self.kind = f"flat {archive.format}"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        for member in self._members(notes):
            for image in self._plain(member, notes):
                notes.share = min(1.0, image.offset / self.archive.blob.size)
                yield image


class _MemberFile:
    """A member of an archive as a `LabelFile`."""

    def __init__(self, archive: Archive, member: Member, listing: ArchiveListing) -> None:
        self._archive = archive
        self._member = member
        self._listing = listing

    def __str__(self) -> str:
        return f"{self._archive.blob.where}: {readable(self._member.name)}"

    def open(self) -> io.BufferedReader:
        """Its content."""
        content = self._archive.read(self._member.name, self._member.offset, self._member.size)
        return io.BufferedReader(io.BytesIO(content))

    def beside(self, name: str) -> LabelFile | None:
        """The file of this name in the same folder."""
        folder = self._member.name.rpartition("/")[0]
        return self._listing.file(trees.join(folder, name))


def is_archive(member: Member) -> bool:
    """Whether a member is named like an archive of images."""
    base = member.name.rpartition("/")[2]
    return is_file(member) and base.endswith(tuple(FORMATS)) and not base.startswith(".")


def _in_new_thread(images: Iterator[Image]) -> Iterator[Image]:
    """Yields images that another thread lists, each when it is asked for.

    A thread reads ahead of its own last header. In one thread, a request would have the headers of
    many small archives; in the threads of `scan`, no two archives share one.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="in-turn") as thread:
        while (image := thread.submit(next, images, None).result()) is not None:
            yield image
