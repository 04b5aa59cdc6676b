"""A cache on a volume: imagenet-fetch stores the files of servers there, index and pack read them.

Each file has a folder, named after the file and its address. `fetched.json` in it names the file
with the content, and is written last.
"""

import hashlib
import io
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources.open_files import OpenFiles
from imagenet_workloads.prepare.stores.blob import LabelFile, changed
from imagenet_workloads.prepare.stores.remote import RemoteBlob, Version, WholeFile

FOLDER = "fetched"
"""The folder in the volume of a cache."""

ABANDONED_SECONDS = 7 * 24 * 3600.0
"""The age of what a job leaves that is suspended or deleted while it fetches; it is deleted."""

_RECORD = "fetched.json"

# One for the process, because the limit of open files is that of the process.
_OPEN_FILES = OpenFiles()


@dataclass(frozen=True)
class Record:
    """A file in the cache.

    Attributes:
        version: of the server's file.
        checksum: that its content had, as `sha256:…` or `md5:…`; empty if none was given.
        content: the name of the file with the content.
        size: of the content in bytes; an archive may be decompressed.
    """

    version: Version
    checksum: str
    content: str
    size: int

    def to_document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "version": self.version.to_document(),
            "checksum": self.checksum,
            "content": self.content,
            "size": self.size,
        }


@dataclass(frozen=True)
class CacheEntry:
    """A server's file in a cache, stored or not.

    Attributes:
        folder: of the file.
        where: the address of the file, without query.
    """

    folder: Path
    where: str

    @property
    def record_path(self) -> Path:
        """The path of `fetched.json`."""
        return self.folder / _RECORD

    def record(self) -> Record | None:
        """What `fetched.json` says; None unless the content is there in full length.

        Raises:
            InputError: `fetched.json` is damaged.
        """
        if not regular_files.exists(self.record_path):
            return None
        fields = Fields.read(self.record_path)
        record = Record(
            Version.from_fields(fields.object("version")),
            fields.text("checksum"),
            fields.file_name("content"),
            fields.integer("size"),
        )
        status = regular_files.status_of(self.folder / record.content)
        return record if status is not None and status.st_size == record.size else None

    def open(self) -> "CachedFile":
        """Opens the content.

        Raises:
            InputError: the file is not in the cache.
        """
        record = self.record()
        if record is None:
            raise InputError(
                f"{self.where}: is not in the cache ({self.folder}); run imagenet-fetch first"
            )
        version = replace(record.version, where=self.where)
        return CachedFile(self.folder / record.content, record.size, version)


def cache_entry(cache: Path, name: str, where: str, server: str = "") -> CacheEntry:
    """Returns the entry of a file in a cache.

    Args:
        cache: the folder of the volume.
        name: the name of the file, without folders.
        where: its address, without query.
        server: what the address lacks, such as the endpoint of a bucket.
    """
    return entry_in_folder(cache / FOLDER, name, where, server)


def entry_in_folder(folder: Path, name: str, where: str, server: str = "") -> CacheEntry:
    """Returns the entry of a file in a folder of a cache; the others are as in `cache_entry`."""
    digest = hashlib.sha256(f"{server} {where}".encode()).hexdigest()[:12]
    return CacheEntry(folder / f"{name}-{digest}", where)


class CachedFile:
    """A file in the cache as a `RemoteBlob` whose reads wait for no network.

    Attributes:
        where: the path of the content.
        size: in bytes.
        version: of the server's file.
        at_once: 1.
        cache_field: empty.
    """

    at_once = 1
    cache_field = ""

    def __init__(self, path: Path, size: int, version: Version | None = None) -> None:
        """Opens nothing yet: there may be more files than a process may open.

        Args:
            path: of the content.
            size: in bytes.
            version: of the server's file; None if it is not read.
        """
        self.where = str(path)
        self.size = size
        self.version = version or Version(self.where, size)
        self._path = path

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range.

        Raises:
            InputError: the file cannot be read, or another fetch has replaced it.
        """
        try:
            return _OPEN_FILES.read(self, self._path, offset, size)
        except FileNotFoundError:
            raise changed(self.where, "is no longer in the cache") from None
        except OSError as error:
            raise InputError(f"{self.where}: cannot be read: {error.strerror}") from error

    def close(self) -> None:
        """Closes the file."""
        _OPEN_FILES.close(self)


class CachedLabels:
    """A label file in the cache as a `LabelFile`."""

    def __init__(self, entry: CacheEntry, beside: Callable[[str], CacheEntry | None]) -> None:
        """Opens nothing yet.

        Args:
            entry: of the file.
            beside: the entry of the file with another name in the same folder.
        """
        self._entry = entry
        self._beside = beside

    def __str__(self) -> str:
        return self._entry.where

    def open(self) -> io.BufferedReader:
        """Its content."""
        with closing(self._entry.open()) as file:
            return io.BufferedReader(io.BytesIO(file.read(0, file.size)))

    def beside(self, name: str) -> LabelFile | None:
        """The file of this name in the same folder, if it was fetched too."""
        entry = self._beside(name)
        if entry is None or entry.record() is None:
            return None
        return CachedLabels(entry, self._beside)


@dataclass(frozen=True)
class FileToFetch:
    """A file of a server that imagenet-fetch stores.

    Attributes:
        name: its name, without folders.
        entry: in the cache.
        is_archive: whether a compressed content is decompressed.
        checksum: `sha256:…` or `md5:…`; empty if it is not given.
        open: asks the server for the file's version. It raises what `RemoteBlob` does.
        stale_folders: the folders in the cache that are deleted when the file is stored.
        checksum_remedy: what to do if the checksum differs.
        is_list: whether it lists other files, which are opened before it.
    """

    name: str
    entry: CacheEntry
    is_archive: bool
    checksum: str
    open: Callable[[], "RemoteBlob | WholeFile"]
    stale_folders: Callable[[], Iterable[Path]] = tuple
    checksum_remedy: str = "upload the file again, or correct its checksum"
    is_list: bool = False
