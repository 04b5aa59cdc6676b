"""A cache on a volume: imagenet-fetch stores the files of servers there, index and pack read them.

Each file has a folder, named after the file and its address. `fetched.json` in it names the file
with the content, and is written last. `fetched-UID.json` names the content that a job reads: a
newer version that another job fetches meanwhile takes nothing from it.

The list of the files that a server has, such as those of a prefix, is one more file, in a folder
that holds the folders of its files. It is stored last, with the version of each file. So index and
pack ask no server, and index notices a file that a later fetch has replaced.
"""

import hashlib
import io
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

from imagenet_workloads import files
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import LabelFile, changed, in_memory
from imagenet_workloads.prepare.stores.remote import RemoteBlob, RemoteFiles, Version, WholeFile

FOLDER = "fetched"
"""The folder in the volume of a cache."""

ABANDONED_SECONDS = 7 * 24 * 3600.0
"""The age of what a job leaves in a cache, which no later program of it can delete: files of a
fetch that was cut off, and the record of what it reads."""

_RECORD = "fetched"
_SUFFIX = ".json"

MOST_OPEN_FILES = 256
"""The most descriptors that stay open. A process may open 1,024 files, and has others."""

_NAME = "files.json"
# A checksum of the list is the server's.
_REMEDY = "fetch it again; if that fails too, report it to the dataset's owner"


@dataclass
class _OpenFile:
    """A descriptor, and the number of reads that use it now."""

    descriptor: int
    reads: int = 0


class OpenFiles:
    """Files that stay open until others were read later; may be used from several threads.

    A source may have more files than a process may open, and training reads them in any order.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: OrderedDict[Hashable, _OpenFile] = OrderedDict()

    def read(self, reader: Hashable, path: Path, offset: int, size: int) -> bytes:
        """The bytes of a range; each reader has a descriptor of its file."""
        with self._lock:
            file = self._open.get(reader)
            if file is None:
                file = self._open[reader] = _OpenFile(files.open_file(path))
            self._open.move_to_end(reader)
            file.reads += 1
        try:
            return os.pread(file.descriptor, size, offset)
        finally:
            with self._lock:
                file.reads -= 1
                # Those that were read longest ago are closed, unless a thread reads them now.
                surplus = len(self._open) - MOST_OPEN_FILES
                if surplus > 0:
                    idle = [one for one, other in self._open.items() if not other.reads]
                    for one in idle[:surplus]:
                        os.close(self._open.pop(one).descriptor)

    def close(self, reader: Hashable) -> None:
        with self._lock:
            file = self._open.pop(reader, None)
        if file is not None:
            os.close(file.descriptor)


# One for the process, because the limit of open files is that of the process.
_OPEN_FILES = OpenFiles()


@dataclass(frozen=True)
class Record:
    """A file in the cache, whose content is the file of this name and size beside the record.

    The checksum is the one given for the server's file, as `sha256:…` or `md5:…`, or empty. The
    size may be another than that of the version: an archive may be decompressed.
    """

    version: Version
    checksum: str
    content: str
    size: int


@dataclass(frozen=True)
class CacheEntry:
    """A server's file in a cache, stored or not, with a folder and an address without query.

    `job` is the UID of the job that fetches or reads it; empty without an operator.
    """

    folder: Path
    where: str
    job: str = ""

    def record(self) -> Record | None:
        """What this job fetched; without that, what was fetched last.

        None unless the content is there in full length.
        """
        own = self._read(self._path_of(self.job)) if self.job else None
        return own or self.newest()

    def newest(self) -> Record | None:
        """What was fetched last, by any job; as `record`."""
        return self._read(self._path_of(""))

    def store(self, record: Record) -> None:
        """Makes a content the newest, and that of this job."""
        self._write("", record)
        self.keep(record)

    def keep(self, record: Record) -> None:
        """Makes a content that of this job, for as long as a preparation may take."""
        if self.job:
            self._write(self.job, record)

    def kept_for_others(self, oldest: float) -> set[str]:
        """The names of the contents that other jobs may read.

        `oldest` is when a preparation that still runs may have begun, by the volume's clock, in
        seconds since 1970. What earlier ones have left is deleted.
        """
        kept, mine = set(), self._path_of(self.job)
        for path in self.folder.glob(f"{_RECORD}-*{_SUFFIX}"):
            status = files.status_of(path)
            if path == mine or status is None:
                continue
            if status.st_mtime < oldest:
                path.unlink(missing_ok=True)
            elif (record := self._read(path)) is not None:
                kept.add(record.content)
        return kept

    def _path_of(self, job: str) -> Path:
        return self.folder / (f"{_RECORD}-{job}{_SUFFIX}" if job else f"{_RECORD}{_SUFFIX}")

    def _write(self, job: str, record: Record) -> None:
        document = {
            "version": record.version.to_document(),
            "checksum": record.checksum,
            "content": record.content,
            "size": record.size,
        }
        files.write_file(self._path_of(job), json.dumps(document).encode() + b"\n")

    def _read(self, path: Path) -> Record | None:
        if not files.exists(path):
            return None
        fields = Fields.read(path)
        record = Record(
            Version.from_fields(fields.object("version")),
            fields.text("checksum"),
            fields.file_name("content"),
            fields.integer("size"),
        )
        status = files.status_of(self.folder / record.content)
        return record if status is not None and status.st_size == record.size else None

    def open(self) -> "CachedFile":
        """Opens the content; an `InputError` if the file is not in the cache."""
        record = self.record()
        if record is None:
            raise InputError(
                f"{self.where}: is not in the cache ({self.folder}); run imagenet-fetch first"
            )
        version = replace(record.version, where=self.where)
        return CachedFile(self.folder / record.content, record.size, version)


def cache_entry(cache: Path, name: str, where: str, server: str = "") -> CacheEntry:
    """The entry of a file in a cache, by its name and its address without query.

    `server` is what the address lacks, such as the endpoint of a bucket.
    """
    return entry_in_folder(cache / FOLDER, name, where, server)


def entry_in_folder(folder: Path, name: str, where: str, server: str = "") -> CacheEntry:
    """The entry of a file in a folder of a cache."""
    digest = hashlib.sha256(f"{server} {where}".encode()).hexdigest()[:12]
    job = Environment.from_mapping(os.environ).job_uid
    return CacheEntry(folder / f"{name}-{digest}", where, job)


class CachedFile:
    """A file in the cache as a `RemoteBlob` whose reads wait for no network.

    It is opened when it is read: there may be more files than a process may open.
    """

    at_once = 1
    cache_field = ""

    def __init__(self, path: Path, size: int, version: Version | None = None) -> None:
        self.where = str(path)
        self.size = size
        self.version = version or Version(self.where, size)
        self._path = path

    def read(self, offset: int, size: int) -> bytes:
        try:
            return _OPEN_FILES.read(self, self._path, offset, size)
        except FileNotFoundError:
            raise changed(self.where, "is no longer in the cache") from None
        except OSError as error:
            raise InputError(f"{self.where}: cannot be read: {error.strerror}") from error

    def close(self) -> None:
        _OPEN_FILES.close(self)


def cached_labels(entry: CacheEntry, entry_of: Callable[[str], CacheEntry | None]) -> LabelFile:
    """A label file in the cache; `entry_of` gives those in the same folder by their names."""

    def read() -> io.BufferedReader:
        with closing(entry.open()) as file:
            return in_memory(file.read(0, file.size))

    def beside(name: str) -> LabelFile | None:
        other = entry_of(name)
        if other is None or other.record() is None:
            return None
        return cached_labels(other, entry_of)

    return LabelFile(entry.where, read, beside)


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


@dataclass(frozen=True)
class CachedFiles:
    """A list of files in a cache, and its files, whose folders are in that of the list."""

    list_entry: CacheEntry

    def open_listed(self) -> tuple[str, RemoteFiles]:
        """The commit of the list, empty if it has none, and its files for index."""
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

        def open_stored(name: str) -> CachedFile:
            # A compressed tar may be stored decompressed.
            entries = (self._entry(form) for form in compressed.name_forms(name))
            found = next((one for one in entries if one.record() is not None), self._entry(name))
            return found.open()

        return self._files((), open_stored)

    def to_fetch(
        self,
        checksums: Mapping[str, str],
        open_file: Callable[[str], RemoteBlob | WholeFile],
        commit: str = "",
    ) -> Iterator[FileToFetch]:
        """The files, and the list last.

        Args:
            checksums: of the files to store, by their paths; empty if unknown.
            open_file: asks the server for the version of a file.
            commit: of the files; empty if they have none.
        """
        tags = dict(checksums)

        def open_noted(name: str) -> RemoteBlob | WholeFile:
            blob = open_file(name)
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
        # The folders of the newest list in the cache, and of the list of this job.
        lists = [replace(self, list_entry=replace(self.list_entry, job=""))]
        lists += [self] if self.list_entry.job else []
        listed = {
            self._entry(name).folder
            for one in lists
            if one.list_entry.record() is not None
            for name in one._read_list().object("files").values
        }

        def open_list() -> RemoteBlob:
            document = {"commit": commit, "files": tags}
            return _List(self.list_entry.where, json.dumps(document).encode())

        def stale_folders() -> Iterable[Path]:
            # A fetch of another list may fill other folders now: those stay until they are old. A
            # job that has fetched an earlier list may still read its files.
            current = {self._entry(name).folder for name in checksums}
            folder = self.list_entry.folder
            oldest = files.volume_clock(folder) - ABANDONED_SECONDS
            for other in [one for one in folder.iterdir() if one.is_dir() and one not in current]:
                status = files.status_of(other)
                is_left = other in listed or (status is not None and status.st_mtime < oldest)
                if is_left and not replace(entry, folder=other).kept_for_others(oldest):
                    yield other

        entry = self.list_entry
        yield FileToFetch(_NAME, entry, False, "", open_list, stale_folders, is_list=True)

    def _read_list(self) -> Fields:
        with closing(self.list_entry.open()) as file:
            text = file.read(0, file.size).decode(errors="replace")
        return Fields.parse(text, str(self.list_entry.folder))

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
        return self._content[offset : offset + size]

    def close(self) -> None:
        """Closes nothing."""


def _tag(checksum: str, version: Version) -> str:
    """By what a file of the list is recognized; the size of a version may be unknown at first."""
    return checksum or version.etag or version.last_modified


def _base(name: str) -> str:
    return name.rpartition("/")[2]
