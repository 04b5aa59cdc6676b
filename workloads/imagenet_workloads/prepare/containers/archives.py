"""The images of archives: of one, of the archives in it, or of several as one source.

They read a `Blob`, so an archive can come from anything that serves ranges of bytes. Of several
archives, each is a class, or all are WebDataset's shards. One archive a class is how the R tutorial
divides ImageNet, and how image-net.org gives single classes.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from types import MappingProxyType
from typing import Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import samples
from imagenet_workloads.prepare.containers.archive import (
    Archive,
    Kind,
    Member,
    holds_image,
    is_file,
    pass_over,
    prefix,
    require_data,
)
from imagenet_workloads.prepare.containers.folder import ANNOTATION_SUFFIX
from imagenet_workloads.prepare.containers.tar import BLOCK, TarArchive
from imagenet_workloads.prepare.containers.zip import ZipArchive
from imagenet_workloads.prepare.entry_names import (
    TABLES,
    TEST,
    TRAINING,
    UNLABELLED,
    VALIDATION,
    is_hidden,
    is_image,
    join,
)
from imagenet_workloads.prepare.source import (
    LARGEST_ANNOTATION,
    Annotations,
    Image,
    Journal,
    Listing,
    Naming,
    Notes,
    PlannedSource,
    Source,
)
from imagenet_workloads.prepare.stores.blob import (
    DamagedImageError,
    FileSet,
    LabelFile,
    changed,
    in_memory,
    map_in_order,
    readable,
)
from imagenet_workloads.prepare.stores.compressed import require_uncompressed
from imagenet_workloads.prepare.stores.remote import HeaderWindow

# Inner archives of a volume. A network file system may take 20 ms for each header.
LISTED_AT_ONCE = 64

FORMATS: dict[str, type[TarArchive | ZipArchive]] = {".tar": TarArchive, ".zip": ZipArchive}
_SUFFIXES = tuple(FORMATS)
FOLDERS = tuple(f"{one.format} of folders" for one in FORMATS.values())
FLAT = tuple(f"flat {one.format}" for one in FORMATS.values())
OF_ARCHIVES = tuple(
    f"{outer.format} of {inner.format}s" for outer in FORMATS.values() for inner in FORMATS.values()
)
KINDS_OF_SETS = {f"folder of {one.format}s": suffix for suffix, one in FORMATS.items()}
# Small files are kept by their paths, as they may be tables of labels.
_MOST_FILES = 100_000
# The archive at the start of an image's name.
_OF_ARCHIVE = re.compile(r"(.*?\.(?:tar|zip))/(.*)", re.DOTALL)
_TOO_LARGE = bytes(LARGEST_ANNOTATION + 1)


class ArchiveListing(Listing):
    """Every image of an archive, which it closes.

    If its images are in no folders beside them, the archives in it are folders with their names.
    """

    def __init__(self, archive: Archive, root: str | None = None, name: str = "") -> None:
        """Takes over an archive, of which the folder `root` is listed; None for all.

        The names of images with labels beside them begin with its name, as in a folder of shards.
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
                images = found.images_of(member, notes)
                # A thread reads ahead of its own last header. In one thread, a request would have
                # the headers of many small archives; in those of `scan`, no two archives share one.
                with ThreadPoolExecutor(1, thread_name_prefix="in-turn") as thread:
                    while (image := thread.submit(next, images, None).result()) is not None:
                        notes.share = min(1.0, image.offset / self.archive.blob.size)
                        yield image
            elif holds_image(member):
                notes.share = min(1.0, member.offset / self.archive.blob.size)
                yield Image("", member.name, member.offset, member.size, member.mtime)

    def read(self, name: str, offset: int, size: int) -> bytes:
        reader = self.archive if self._inner is None else self._inner(self.archive.blob)
        return reader.read(name, offset, size)

    def close(self) -> None:
        self.archive.blob.close()

    def file(self, path: str) -> LabelFile | None:
        member = self._files.get(path)
        if member is None:
            return None
        archive, folder = self.archive, path.rpartition("/")[0]
        return LabelFile(
            f"{self.where}: {readable(path)}",
            lambda: in_memory(archive.read(member.name, member.offset, member.size)),
            lambda name: self.file(join(folder, name)),
        )

    def naming(self, roots: Sequence[str], *, has_labels: bool) -> Naming:
        """The names of images are their paths; those in a shard begin with its name."""
        del roots
        is_shard = has_labels and self._name and self._inner is None
        return Naming("", f"{self._name}/" if is_shard else "")

    def fields_of_split(self, roots: Sequence[str]) -> Mapping[str, Any]:
        """The folder: flat images in it are those of the archive, and no other source's."""
        return {"within": roots[0]}

    def annotations(self, folder: str) -> Annotations:
        return AnnotationsInArchive(self.archive, folder)

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
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

        yield from samples.images(self.archive, others(), "", notes, may_be_labelled)

    def _members(self, notes: Notes) -> Iterator[Member]:
        """The members below the root that are in no hidden folder; keeps the small files."""
        start = prefix(self.start)
        for member in self.archive.members():
            folder, _, base = member.name.rpartition("/")
            may_label = base.endswith(TABLES) and member.kind is Kind.FILE
            if may_label and len(self._files) < _MOST_FILES:
                self._files[member.name] = member
            if not member.name.startswith(start):
                continue
            inside = folder.removeprefix(self.start)
            if is_hidden(inside) or (member.kind is Kind.FOLDER and is_hidden(base)):
                notes.hide(member.name)
            else:
                yield member


def format_of(archives: Sequence[Member], where: str) -> type[TarArchive | ZipArchive] | None:
    """The format of the archives in an archive; None without any, an `InputError` for several."""
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

        The journal knows the archives that are listed already. The prefix begins names of images.
        """
        self._archive = archive
        self._members = members
        self._journal = journal or Journal()
        self._at_once = at_once
        self._prefix = prefix

    def images(self, notes: Notes) -> Iterator[Image]:
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
        """Yields the images of an inner archive."""
        require_data(outer, self._archive.blob.where)
        # The archive of a class that was not downloaded can have 0 bytes.
        if outer.size:
            part = self._archive.part(outer)
            if outer.name.endswith(".tar"):
                require_uncompressed(part.read(0, BLOCK), part.where)
            inner = FORMATS[outer.name[-4:]](part)
            found = _images_in(
                inner, f"{self._prefix}{outer.name}/", notes, lambda one: pass_over(one, notes)
            )
            for label, name, offset, size, mtime in found:
                yield Image(label, name, part.start + offset, size, mtime)
        else:
            notes.empty.append(f"{self._prefix}{outer.name}")


def _images_in(
    archive: Archive, prefix: str, notes: Notes, hide: Callable[[Member], None], at_once: int = 1
) -> Iterator[Image]:
    """Yields the images of an archive; without any, those of the archives in it.

    `prefix` is that of the images' names. `hide` is called with each member in a hidden folder.
    """
    inner: list[Member] = []

    def members() -> Iterator[Member]:
        # The archive of a class that was not downloaded can have 0 bytes.
        for member in archive.members() if archive.blob.size else ():
            if is_hidden(member.name.rpartition("/")[0]):
                hide(member)
            elif is_archive(member):
                inner.append(member)
            else:
                yield member

    images = 0
    is_tar = isinstance(archive, TarArchive)
    for image in samples.images(archive, members(), prefix, notes, lambda _: is_tar):
        images += 1
        yield image
    if images:
        for member in inner:
            pass_over(member, notes)
    elif inner:
        format_of(inner, archive.blob.where)
        for image in InnerArchives(archive, inner, at_once=at_once, prefix=prefix).images(notes):
            images += 1
            yield image
    if not images:
        notes.empty.append(prefix.removesuffix("/"))


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


def planned_archive(archive: Archive, kind: str) -> Source:
    """The images of a plan in an archive, or in the archives in it, by the kind of the plan."""
    inner = next((one for one in FORMATS.values() if kind.endswith(f" of {one.format}s")), None)
    reader = archive if inner is None else inner(archive.blob)
    return PlannedSource(kind, archive.blob.where, reader.read, archive.blob.close)


class FlatArchive(ArchiveListing):
    """Images without classes, as ILSVRC2012_img_val.tar; `labels` reads their classes."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive)
        self.kind = f"flat {archive.format}"

    def scan(self, notes: Notes) -> Iterator[Image]:
        for member in self._members(notes):
            if not holds_image(member):
                pass_over(member, notes)
                continue
            require_data(member, self.where)
            notes.share = min(1.0, member.offset / self.archive.blob.size)
            yield Image("", member.name, member.offset, member.size, member.mtime)


def is_archive(member: Member) -> bool:
    """Whether a member is named like an archive of images."""
    if not member.name.endswith(_SUFFIXES):
        return False
    return is_file(member) and not member.name.rpartition("/")[2].startswith(".")


class ArchiveSet(Listing):
    """The images of some archives, one archive after the other."""

    def __init__(
        self,
        files: FileSet,
        names: Sequence[str],
        planned: Fields | None = None,
        others: Sequence[str] = (),
        within: str = "",
        splits: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Opens nothing yet: there may be more archives than a process may open.

        Args:
            files: with the archives; it is closed with the source.
            names: of the archives to list, in order.
            planned: as `version` was for index; None before it.
            others: the names of other files beside them, which are counted.
            within: for pack, the archive of a split whose images are named by their paths in it.
            splits: the split of each archive; none if no split is one.
        """
        self.where = files.where if len(names) != 1 else f"{files.where}/{names[0]}"
        self.names = names
        self.reads_at_once = files.reads_at_once
        self._within = within
        self._splits = splits
        suffixes = {one[-4:] for one in names}
        if len(suffixes) > 1 and not self._splits:
            raise InputError(
                f"{files.where}: holds tars and zips; put those of the classes into one folder"
            )
        self.kind = f"folder of {(suffixes.pop() if suffixes else '.tar')[1:]}s"
        self._files = files
        self._others = others
        self._planned: dict[str, str] = {}
        # In another place there are other files, perhaps with the same images.
        if planned is not None and planned.text("where") == files.where:
            tags = planned.object("files")
            self._planned = {name: tags.text(name) for name in tags.values}
        self._tags: dict[str, str] = {}
        if files.has_tags:
            self.version = {"where": files.where, "files": self._tags}

    @property
    def lists_at_once(self) -> int:
        return self.reads_at_once

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """Where they are: each archive has a tag of its own."""
        is_journaled = self._files.has_tags and self.reads_at_once > 1
        return {"where": self._files.where} if is_journaled else None

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        del is_flat
        return samples.KIND if has_labels else self.kind

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images of each archive; those of a server are listed many at a time."""
        names = self._names_to_list()
        for name in self._others:
            notes.pass_over(name)
        if notes.survey is not None:
            notes.survey.beside += filter(is_image, self._others)
            notes.survey.unlisted += [name for name in self.names if name not in {*names}]
            for name in names:
                notes.survey.add_archive(name)
        if self.reads_at_once == 1:
            yield from self.scan_in_turn(notes)
            return
        listed = map_in_order(self._listed, names, self.reads_at_once)
        for number, (images, own) in enumerate(listed):
            notes.share = number / len(names)
            notes.add(own)
            yield from listed_images(images, names[number], notes)

    def _names_to_list(self) -> Sequence[str]:
        """The archives but those of a test split beside a validation split: it is left out."""
        of = self._splits
        if not {TRAINING, VALIDATION} <= {*of.values()}:
            return self.names
        return [name for name in self.names if of[name] not in (TEST, UNLABELLED)]

    def scan_in_turn(self, notes: Notes) -> Iterator[Image]:
        names = self._names_to_list()
        for number, name in enumerate(names):
            notes.share = number / len(names)
            archive = self._open(name)
            with closing(archive.blob):
                for image in self._images(name, archive, notes):
                    done = number + min(1.0, image.offset / archive.blob.size)
                    notes.share = done / len(names)
                    yield image

    def _images(self, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        at_once = LISTED_AT_ONCE if self.reads_at_once == 1 else 1

        def hide(member: Member) -> None:
            notes.hide(f"{name}/{member.name}")

        yield from _images_in(archive, f"{name}/", notes, hide, at_once)

    def read(self, name: str, offset: int, size: int) -> bytes:
        match = _OF_ARCHIVE.fullmatch(f"{self._within}/{name}" if self._within else name)
        if match is None:
            raise changed(self.where, f"{name} is in no archive")
        archive = self._open(match[1])
        with closing(archive.blob):
            deeper = _OF_ARCHIVE.fullmatch(match[2])
            # An archive in it may be of the other format; its images have headers of that.
            reader = FORMATS[deeper[1][-4:]](archive.blob) if deeper else archive
            return reader.read(match[2], offset, size)

    def file(self, path: str) -> LabelFile | None:
        return self._files.label_file(path)

    def naming(self, roots: Sequence[str], *, has_labels: bool) -> Naming:
        """The names of images are their paths; those in it if there is one archive a split."""
        is_one_each = len(set(self._splits.values())) == len(self._splits)
        archive = roots[0].partition("/")[0]
        is_in_it = is_one_each and archive in self._splits and not has_labels
        return Naming(f"{archive}/" if is_in_it else "")

    def close(self) -> None:
        self._files.close()

    def _listed(self, name: str) -> tuple[str, Notes]:
        """Lists an archive: its images as JSON, which takes a fifth of their memory."""
        archive = self._open(name)
        with closing(archive.blob):

            def scan(notes: Notes) -> str:
                return json.dumps(list(self._images(name, archive, notes)))

            tag = self._tags[name]
            journal = self.journal if tag else Journal()
            return journal.listed(json.dumps([name, tag]), scan)

    def _open(self, name: str) -> Archive:
        """Opens one of the archives, which must be the planned one and not compressed."""
        blob = self._files.open(name)
        tag = self._files.tag(name)
        if self._planned.get(name, tag) != tag:
            raise changed(blob.where, "is another file")
        self._tags[name] = tag
        if self.reads_at_once > 1:
            blob = HeaderWindow(blob)
        format = next((one for suffix, one in FORMATS.items() if name.endswith(suffix)), TarArchive)
        if format is TarArchive:
            require_uncompressed(blob.read(0, min(blob.size, BLOCK)), blob.where)
        return format(blob)


class AnnotationsInArchive:
    """The annotations in a folder of an archive, which stays open.

    They are near each other, so those of a server take few requests.
    """

    def __init__(self, archive: Archive, folder: str) -> None:
        self.where = f"{archive.blob.where}: {folder}"
        reader = ZipArchive if isinstance(archive, ZipArchive) else TarArchive
        self._archive: Archive = reader(HeaderWindow(archive.blob, small=2 * LARGEST_ANNOTATION))
        self._folder = folder

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for member in self._archive.members():
            is_here = member.name.startswith(prefix(self._folder)) and member.kind is Kind.FILE
            if not is_here or not member.name.endswith(ANNOTATION_SUFFIX):
                continue
            content = _TOO_LARGE if member.size > LARGEST_ANNOTATION else b""
            if not content:
                # Without bytes it is no XML, so it counts as damaged.
                with suppress(DamagedImageError):
                    content = self._archive.read(member.name, member.offset, member.size)
            yield member.name, content
