"""The files that a server lists, such as those of a prefix, in a cache.

The list is one more file of the cache, in a folder that holds the folders of its files. It is
stored last, with the version of each file. So index and pack ask no server, and index notices a
file that a later fetch has replaced.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import atomic_files
from imagenet_workloads.prepare.containers import parquet
from imagenet_workloads.prepare.sources.cache import (
    ABANDONED_SECONDS,
    CachedFile,
    CacheEntry,
    FileToFetch,
    entry_in_folder,
)
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.remote import RemoteBlob, RemoteFiles, Version, WholeFile

Opener = Callable[[], RemoteBlob | WholeFile]

_NAME = "files.json"
# A checksum of the list is the server's.
_REMEDY = "fetch it again; if that fails too, report it to the dataset's owner"


@dataclass(frozen=True)
class CachedFiles:
    """A list of files in a cache, and its files.

    Attributes:
        list_entry: of the list; the folders of its files are beside it.
    """

    list_entry: CacheEntry

    def open_listed(self) -> tuple[str, RemoteFiles]:
        """The commit of the list, empty if it has none, and its files for index.

        Raises:
            InputError: the list is not in the cache, or is damaged.
        """
        fields = self._read_list()
        tags = fields.object("files")

        def open_blob(name: str) -> CachedFile:
            entry = self._entry(name)
            record = entry.record()
            if record is not None and _tag(record.checksum, record.version) != tags.text(name):
                raise InputError(
                    f"{entry.where}: another fetch has replaced it since the list was stored; "
                    "run imagenet-fetch again"
                )
            return entry.open()

        return fields.text("commit"), self._files(sorted(tags.values), open_blob)

    def open_planned(self) -> RemoteFiles:
        """The files for pack, which knows their names and tags."""
        return self._files((), lambda name: self._stored(name).open())

    def to_fetch(
        self, checksums: Mapping[str, str], opener: Callable[[str], Opener], commit: str = ""
    ) -> Iterator[FileToFetch]:
        """The files, and the list last.

        Args:
            checksums: of the files to store, by their paths; empty if unknown.
            opener: returns what asks the server for a file.
            commit: of the files; empty if they have none.
        """
        tags = dict(checksums)

        def open_noted(name: str) -> RemoteBlob | WholeFile:
            blob = opener(name)()
            tags[name] = _tag(checksums[name], blob.version)
            return blob

        for name, checksum in checksums.items():
            yield FileToFetch(
                _base(name),
                self._entry(name),
                is_archive=not name.endswith(parquet.SUFFIX),
                checksum=checksum,
                open=partial(open_noted, name),
                checksum_remedy=_REMEDY,
            )
        listed = self._listed_folders()

        def open_list() -> RemoteBlob:
            document = {"commit": commit, "files": tags}
            return _List(self.list_entry.where, json.dumps(document).encode())

        def stale_folders() -> Iterable[Path]:
            return self._stale_folders(listed, {self._entry(name).folder for name in checksums})

        entry = self.list_entry
        yield FileToFetch(_NAME, entry, False, "", open_list, stale_folders, is_list=True)

    def _read_list(self) -> Fields:
        with closing(self.list_entry.open()) as file:
            text = file.read(0, file.size).decode(errors="replace")
        return Fields.parse(text, str(self.list_entry.folder))

    def _listed_folders(self) -> set[Path]:
        """The folders of the files of the list that is in the cache; none without a list."""
        if self.list_entry.record() is None:
            return set()
        return {self._entry(name).folder for name in self._read_list().object("files").values}

    def _stale_folders(self, listed: set[Path], current: set[Path]) -> list[Path]:
        """The folders that are deleted: a fetch of another list may fill others now."""
        folder = self.list_entry.folder
        oldest = atomic_files.volume_clock(folder) - ABANDONED_SECONDS
        others = [one for one in folder.iterdir() if one.is_dir() and one not in current]
        return [one for one in others if one in listed or _is_older(one, oldest)]

    def _stored(self, name: str) -> CacheEntry:
        """The entry of a file, or of the compressed tar that was stored decompressed."""
        entries = (self._entry(form) for form in compressed.name_forms(name))
        return next((one for one in entries if one.record() is not None), self._entry(name))

    def _entry(self, name: str) -> CacheEntry:
        where = f"{self.list_entry.where.rstrip('/')}/{name}"
        return entry_in_folder(self.list_entry.folder, _base(name), where)

    def _files(self, names: Iterable[str], open_blob: Callable[[str], CachedFile]) -> RemoteFiles:
        where = self.list_entry.where.rstrip("/")
        return RemoteFiles(where, tuple(names), open_blob, CachedFile.at_once)


class _List:
    """The list before it is stored, as a `RemoteBlob`."""

    at_once = 1
    cache_field = ""

    def __init__(self, where: str, content: bytes) -> None:
        self.where = where
        self.size = len(content)
        self.version = Version(where, self.size, hashlib.sha256(content).hexdigest())
        self._content = content

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        return self._content[offset : offset + size]

    def close(self) -> None:
        """Closes nothing."""


def _tag(checksum: str, version: Version) -> str:
    """By what a file of the list is recognized; the size of a version may be unknown at first."""
    return checksum or version.etag or version.last_modified


def _is_older(folder: Path, time: float) -> bool:
    status = regular_files.status_of(folder)
    return status is not None and status.st_mtime < time


def _base(name: str) -> str:
    return name.rpartition("/")[2]
