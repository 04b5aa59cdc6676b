"""Several archives as one source: those of a folder, of a server or of a bucket.

Each is a class, or all are WebDataset's shards. One archive a class is how the R tutorial divides
ImageNet, and how image-net.org gives single classes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources import webdataset
from imagenet_workloads.prepare.sources.archive import Archive, Member, pass_over
from imagenet_workloads.prepare.sources.archive_layouts import (
    FORMATS,
    LISTED_AT_ONCE,
    InnerArchives,
    format_of,
    is_archive,
    listed_images,
)
from imagenet_workloads.prepare.sources.layouts.choice import DEVKIT, TREE, WEB_DATASET, Choice
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.layouts.words import (
    TEST,
    TRAINING,
    UNLABELLED,
    VALIDATION,
    splits_of_paths,
)
from imagenet_workloads.prepare.sources.source import (
    Image,
    Journal,
    Listing,
    Naming,
    Notes,
    is_image,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive
from imagenet_workloads.prepare.stores.blob import Blob, FileSet, LabelFile, changed
from imagenet_workloads.prepare.stores.compressed import require_uncompressed
from imagenet_workloads.prepare.stores.remote import HeaderWindow

KINDS = {f"folder of {one.format}s": suffix for suffix, one in FORMATS.items()}
# The archive at the start of an image's name.
_OF_ARCHIVE = re.compile(r"(.*?\.(?:tar|zip))/(.*)", re.DOTALL)


class ArchiveSet(Listing):
    """The images of some archives, one archive after the other.

    Attributes:
        names: of the archives in their set.
    """

    def __init__(
        self,
        files: FileSet,
        names: Sequence[str],
        planned: Fields | None = None,
        others: Sequence[str] = (),
        within: str = "",
        choice: Choice | None = None,
    ) -> None:
        """Opens nothing yet: there may be more archives than a process may open.

        Args:
            files: with the archives; it is closed with the source.
            names: of the archives to list, in order.
            planned: as `version` was for index; None before it.
            others: the names of other files beside them, which are counted.
            within: for pack, the archive of a split whose images are named by their paths in it.
            choice: what the user wrote of the layout.

        Raises:
            InputError: the archives are of several kinds.
        """
        self.where = files.where if len(names) != 1 else f"{files.where}/{names[0]}"
        self.names = names
        self.reads_at_once = files.reads_at_once
        self._within = within
        self._splits = {} if choice is None or choice.has_splits else _splits(names, choice)
        suffixes = {one[-4:] for one in names}
        if len(suffixes) > 1 and not self._splits:
            raise InputError(
                f"{files.where}: holds tars and zips; put those of the classes into one folder"
            )
        self.kind = f"folder of {(suffixes.pop() if suffixes else '.tar')[1:]}s"
        self._files = files
        self._others = others
        self._planned = _tags_of(planned, files)
        self._tags: dict[str, str] = {}
        if files.has_tags:
            self.version = {"where": files.where, "files": self._tags}

    @property
    def lists_at_once(self) -> int:
        """The archives that are listed at the same time, one request each."""
        return self.reads_at_once

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """Where they are: each archive has a tag of its own."""
        is_journaled = self._files.has_tags and self.reads_at_once > 1
        return {"where": self._files.where} if is_journaled else None

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        """The kind in plans."""
        del is_flat
        return webdataset.KIND if has_labels else self.kind

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
        """The images of one archive after the other."""
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
        """The images of one archive; their names begin with its name and a slash."""
        inner: list[Member] = []

        def members() -> Iterator[Member]:
            # The archive of a class that was not downloaded can have 0 bytes.
            for member in archive.members() if archive.blob.size else ():
                if is_hidden(member.name.rpartition("/")[0]):
                    notes.hide(f"{name}/{member.name}")
                elif is_archive(member):
                    inner.append(member)
                else:
                    yield member

        number = 0
        is_tar = isinstance(archive, TarArchive)
        for image in webdataset.images(archive, members(), f"{name}/", notes, lambda _: is_tar):
            number += 1
            yield image
        if number:
            for member in inner:
                pass_over(member, notes)
        elif inner:
            format_of(inner, archive.blob.where)
            at_once = LISTED_AT_ONCE if self.reads_at_once == 1 else 1
            found = InnerArchives(archive, inner, at_once=at_once, prefix=f"{name}/")
            yield from found.images(notes)
        else:
            notes.empty.append(name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image, at its offset in the outer archive."""
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
        """A file of labels beside the archives."""
        return self._files.label_file(path)

    def naming(self, roots: Sequence[str], *, has_labels: bool) -> Naming:
        """The names of images are their paths; those in it if there is one archive a split."""
        is_one_each = len(set(self._splits.values())) == len(self._splits)
        archive = roots[0].partition("/")[0]
        is_in_it = is_one_each and archive in self._splits and not has_labels
        return Naming(f"{archive}/" if is_in_it else "")

    def close(self) -> None:
        """Closes the files."""
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
        blob = self._files.open(name)
        tag = self._files.tag(name)
        if self._planned.get(name, tag) != tag:
            raise changed(blob.where, "is another file")
        self._tags[name] = tag
        return self._archive_in(blob if self.reads_at_once == 1 else HeaderWindow(blob), name)

    def _archive_in(self, blob: Blob, name: str) -> Archive:
        """One of the archives, in its bytes.

        Raises:
            InputError: it is compressed.
        """
        format = next((one for suffix, one in FORMATS.items() if name.endswith(suffix)), TarArchive)
        if format is TarArchive:
            require_uncompressed(blob.read(0, min(blob.size, BLOCK)), blob.where)
        return format(blob)


def _splits(names: Sequence[str], choice: Choice) -> Mapping[str, str]:
    """The split of each archive; none unless there are training archives and others."""
    if choice.layout not in ("", TREE, DEVKIT, WEB_DATASET):
        return {}
    of = splits_of_paths(names)
    return of if TRAINING in of.values() and len({*of.values()}) > 1 and all(of.values()) else {}


def _tags_of(planned: Fields | None, files: FileSet) -> dict[str, str]:
    """The planned tags of the archives, unless they are of other files with the same images."""
    if planned is None or planned.text("where") != files.where:
        return {}
    tags = planned.object("files")
    return {name: tags.text(name) for name in tags.values}
