"""Several archives as one source: those of a folder, of a server or of a bucket."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources.archive import Archive
from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.header_window import HeaderWindow
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Journal,
    Notes,
    Source,
    changed,
)


class ArchiveSet(Source):
    """The images of some archives, one archive after the other.

    Attributes:
        names: of the archives in their set.
    """

    def __init__(self, files: FileSet, names: Sequence[str], planned: Fields | None = None) -> None:
        """Opens nothing yet: there may be more archives than a process may open.

        Args:
            files: with the archives; it is closed with the source.
            names: of the archives to list, in order.
            planned: as `version` was for index; None before it.
        """
        self.where = files.where if len(names) != 1 else f"{files.where}/{names[0]}"
        self.names = names
        self.reads_at_once = files.reads_at_once
        self._files = files
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

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images of each archive; those of a server are listed many at a time."""
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
                for image in self.scan_archive(name, archive, notes):
                    done = number + min(1.0, image.offset / archive.blob.size)
                    notes.share = done / len(self.names)
                    yield image

    @abstractmethod
    def scan_archive(self, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        """The images of one archive; their names begin with its name and a slash."""

    @abstractmethod
    def archive_in(self, blob: Blob) -> Archive:
        """One of the archives, in its bytes.

        Raises:
            InputError: it is compressed.
        """

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        file, _, member = name.partition("/")
        archive = self._open(file)
        with closing(archive.blob):
            return archive.read(member, offset, size)

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def _listed(self, name: str) -> tuple[str, Notes]:
        """Lists an archive: its images as JSON, which takes a fifth of their memory."""
        archive = self._open(name)
        with closing(archive.blob):

            def scan(notes: Notes) -> str:
                return json.dumps(list(self.scan_archive(name, archive, notes)))

            tag = self._tags[name]
            journal = self.journal if tag else Journal()
            return journal.listed(json.dumps([name, tag]), scan)

    def _open(self, name: str) -> Archive:
        blob = self._files.open(name)
        tag = self._files.tag(name)
        if self._planned.get(name, tag) != tag:
            raise changed(blob.where, "is another file")
        self._tags[name] = tag
        return self.archive_in(blob if self.reads_at_once == 1 else HeaderWindow(blob))


def _tags_of(planned: Fields | None, files: FileSet) -> dict[str, str]:
    """The planned tags of the archives, unless they are of other files with the same images."""
    if planned is None or planned.text("where") != files.where:
        return {}
    tags = planned.object("files")
    return {name: tags.text(name) for name in tags.values}
