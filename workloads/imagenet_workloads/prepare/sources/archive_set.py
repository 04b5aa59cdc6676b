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
from imagenet_workloads.prepare.sources.archive import Archive, Member
from imagenet_workloads.prepare.sources.archive_layouts import FORMATS, require_uncompressed
from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.header_window import HeaderWindow
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Journal,
    Listing,
    Notes,
    changed,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive

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
    ) -> None:
        """Opens nothing yet: there may be more archives than a process may open.

        Args:
            files: with the archives; it is closed with the source.
            names: of the archives to list, in order.
            planned: as `version` was for index; None before it.
            others: the names of other files beside them, which are counted.

        Raises:
            InputError: the archives are of several kinds.
        """
        self.where = files.where if len(names) != 1 else f"{files.where}/{names[0]}"
        self.names = names
        self.reads_at_once = files.reads_at_once
        suffixes = {one[-4:] for one in names}
        if len(suffixes) > 1:
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
        for name in self._others:
            notes.pass_over(name)
        if notes.survey is not None:
            for name in self.names:
                notes.survey.add_archive(name)
        if self.reads_at_once == 1:
            yield from self.scan_in_turn(notes)
            return
        listed = map_in_order(self._listed, self.names, self.reads_at_once)
        for number, (images, own) in enumerate(listed):
            notes.share = number / len(self.names)
            notes.add(own)
            yield from map(Image._make, json.loads(images))

    def scan_in_turn(self, notes: Notes) -> Iterator[Image]:
        """The images of one archive after the other."""
        for number, name in enumerate(self.names):
            notes.share = number / len(self.names)
            archive = self._open(name)
            with closing(archive.blob):
                for image in self._images(name, archive, notes):
                    done = number + min(1.0, image.offset / archive.blob.size)
                    notes.share = done / len(self.names)
                    yield image

    def _images(self, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        """The images of one archive; their names begin with its name and a slash."""

        def members() -> Iterator[Member]:
            # The archive of a class that was not downloaded can have 0 bytes.
            for member in archive.members() if archive.blob.size else ():
                if not is_hidden(member.name.rpartition("/")[0]):
                    yield member
                else:
                    notes.hide(f"{name}/{member.name}")

        number = 0
        is_tar = isinstance(archive, TarArchive)
        for image in webdataset.images(archive, members(), f"{name}/", notes, lambda _: is_tar):
            number += 1
            yield image
        if number == 0:
            notes.empty.append(name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        match = _OF_ARCHIVE.fullmatch(name)
        if match is None:
            raise changed(self.where, f"{name} is in no archive")
        archive = self._open(match[1])
        with closing(archive.blob):
            return archive.read(match[2], offset, size)

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


def _tags_of(planned: Fields | None, files: FileSet) -> dict[str, str]:
    """The planned tags of the archives, unless they are of other files with the same images."""
    if planned is None or planned.text("where") != files.where:
        return {}
    tags = planned.object("files")
    return {name: tags.text(name) for name in tags.values}
