"""`imagenet-fetch`: stores files of a server in a cache on a volume, before index lists them.

The steps: ask the server for the version of each file, check the free space, fetch what is missing,
compare the checksum, decompress an archive, rename the file, and write `fetched.json` last. A
process that is killed at any byte leaves what the next one continues.

A file is fetched by ranges, or as a whole from a server without them. By ranges, another process
can complete it after a kill (`PartialFile`): a journal beside it has the version of the server's
file in its first line, and then the blocks that are on the disk.
"""

import hashlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from imagenet_workloads import files
from imagenet_workloads.errors import NO_ROOM, InputError, StorageError, WorkloadError
from imagenet_workloads.prepare.sources.cache import (
    ABANDONED_SECONDS,
    CachedFile,
    FileToFetch,
    Record,
)
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import SourceChangedError, map_in_order
from imagenet_workloads.prepare.stores.remote import RemoteBlob, Version, WholeFile
from imagenet_workloads.telemetry.preparation import PreparationRecorder

_log = logging.getLogger(__name__)

REMEDY = "enlarge the claim of cache, or name a larger one"

CONNECTIONS = 8
"""The default number of requests at the same time."""

BLOCK = 8 << 20
"""The bytes of a request, and the most that a connection fetches again after a kill."""

LEFT_SECONDS = 15 * 60
"""A job that writes no block for this long has ended, or its server does not answer."""


def journal_of(path: Path) -> Path:
    """The path of the journal of a partial file."""
    return path.with_name(f"{path.name}.blocks")


def take_over(path: Path, others: str, version: dict[str, Any]) -> None:
    """Renames what another job has left of the same file, so that `PartialFile` continues it.

    If that job writes again, it writes the same bytes to the same places.
    """
    with files.storage_errors(path):
        if path.exists():
            return
        now = files.volume_clock(path.parent)
        for entry in list(path.parent.iterdir()):
            other = entry.with_suffix("")
            if not (entry.name.startswith(others) and journal_of(other) == entry):
                continue
            # Another job may take it at the same moment.
            with suppress(FileNotFoundError):
                is_left = now - entry.stat().st_mtime >= LEFT_SECONDS
                if is_left and entry.read_text().startswith(f"{_header(version)}\n"):
                    other.rename(path)
                    entry.rename(journal_of(path))
                    return


def _header(version: dict[str, Any]) -> str:
    """The first line of a journal."""
    return json.dumps({"version": version, "block": BLOCK})


class PartialFile:
    """A file without some of its blocks; `write` may be called from several threads."""

    def __init__(self, path: Path, version: dict[str, Any], size: int) -> None:
        """Continue the file of an earlier process, or begin one for another version."""
        self.path = path
        self.size = size
        self._header = _header(version)
        self._lock = threading.Lock()
        with files.storage_errors(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._data = os.open(path, flags, 0o666)
            self._journal = os.open(journal_of(path), flags | os.O_APPEND, 0o666)
            blocks = self._read_journal()
            if blocks is None:
                os.ftruncate(self._journal, 0)
                os.ftruncate(self._data, 0)
                os.ftruncate(self._data, size)
                os.fsync(self._data)
                os.write(self._journal, f"{self._header}\n".encode())
        self._blocks = blocks or set()
        self.present = sum(map(self._length, self._blocks))

    def missing(self) -> list[int]:
        return [one for one in range(-(-self.size // BLOCK)) if one not in self._blocks]

    def span(self, block: int) -> tuple[int, int]:
        return block * BLOCK, self._length(block)

    def write(self, block: int, data: bytes) -> None:
        """Write a block to the disk, then note it in the journal."""
        offset, _ = self.span(block)
        view = memoryview(data)
        while view:
            written = os.pwrite(self._data, view, offset)
            view, offset = view[written:], offset + written
        # A journal that is ahead of its data would leave a hole after a crash of the node.
        os.fdatasync(self._data)
        with self._lock:
            os.write(self._journal, f"{block}\n".encode())
            self.present += len(data)

    def sync(self) -> None:
        os.fsync(self._data)

    def close(self) -> None:
        os.close(self._data)
        os.close(self._journal)

    def _length(self, block: int) -> int:
        return min(BLOCK, self.size - block * BLOCK)

    def _read_journal(self) -> set[int] | None:
        """The blocks on the disk; None if the file has to begin again."""
        text = os.pread(self._journal, os.fstat(self._journal).st_size, 0)
        # The last line of a process that was killed may be cut off.
        whole, newline, _ = text.rpartition(b"\n")
        os.ftruncate(self._journal, len(whole + newline))
        header, *lines = whole.decode(errors="replace").split("\n")
        if header != self._header or os.fstat(self._data).st_size != self.size:
            return None
        blocks = -(-self.size // BLOCK)
        return {int(one) for one in lines if one.isascii() and one.isdigit() and int(one) < blocks}


class Ranges:
    """A download over several connections, which continues that of an earlier process."""

    def __init__(self, blob: RemoteBlob, path: Path) -> None:
        self.version = blob.version
        self.path = path
        start = blob.read(0, compressed.MAGIC)
        self.is_packed = compressed.format_of(start) is not None
        self._blob = blob
        # It is open only while it is fetched: a source may have more files than a process may open.
        with closing(self._partial_file()) as file:
            self.present = file.present

    def fetch(self, connections: int, recorder: PreparationRecorder) -> None:
        """Fetch the missing blocks.

        Raises:
            StorageError: the volume is full; the message has the bytes that it lacks.
            WorkloadError: as `RemoteBlob.read`.
        """

        def fetch_block(block: int) -> None:
            data = self._blob.read(*file.span(block))
            with room(self.path, file.size - file.present):
                file.write(block, data)
            recorder.fetched(len(data))

        with closing(self._partial_file()) as file:
            for _ in map_in_order(fetch_block, file.missing(), connections):
                pass
            with room(self.path, 0):
                file.sync()

    def close(self) -> None:
        self._blob.close()

    def _partial_file(self) -> PartialFile:
        return PartialFile(self.path, self.version.to_document(), self._blob.size)


class Whole:
    """A download over one connection, which begins again after each fault."""

    present = 0
    is_packed = False

    def __init__(self, file: WholeFile, path: Path) -> None:
        self.version = file.version
        self.path = path
        self._file = file

    def fetch(self, connections: int, recorder: PreparationRecorder) -> None:
        received = 0

        def take(version: Version, chunks: Iterable[bytes]) -> None:
            nonlocal received
            recorder.fetched(-received)
            received, self.version = 0, version
            with room(self.path, version.size), self.path.open("wb") as file:
                for chunk in chunks:
                    with room(self.path, max(len(chunk), version.size - received)):
                        file.write(chunk)
                    received += len(chunk)
                    recorder.fetched(len(chunk))
                file.flush()
                os.fsync(file.fileno())

        self._file.receive(take)
        self.version = Version(
            self.version.where, received, self.version.etag, self.version.last_modified
        )

    def close(self) -> None:
        self._file.close()


Download = Ranges | Whole


@contextmanager
def room(path: Path, needed: int) -> Iterator[None]:
    """Raise an OSError of a write of `path`; on a full volume with the bytes that are needed."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageError(
                f"{path.parent}: {error.strerror}: {needed} more bytes are needed; {REMEDY}"
            ) from error
        files.explain(path, error)


@dataclass(frozen=True)
class FetchRequest:
    """The options of a fetch."""

    files: Sequence[FileToFetch]
    cache: Path
    connections: int = CONNECTIONS  # the most requests at the same time
    # The UID of the job, in the names of its temporary files; empty without an operator.
    owner: str = ""


def run(request: FetchRequest, recorder: PreparationRecorder) -> int:
    """Stores every file that the cache lacks; returns the bytes of all files on the server.

    Raises:
        InputError: the server refuses, or a file has another checksum.
        StorageError: the volume has too little room, or cannot be written.
        WorkloadError: the server cannot be reached, or a file has changed meanwhile.
    """
    files.make_folder(request.cache)
    recorder.fetch_files(len(request.files))
    _log.info("asking for the versions of %d files", len(request.files))

    def begin(file: FileToFetch) -> Record | Download:
        found = _begin(file, request.owner)
        recorder.fetch_asked()
        return found

    # The lists come last: they hold the versions of the other files.
    others = [file for file in request.files if not file.is_list]
    lists = [file for file in request.files if file.is_list]
    started = map_in_order(begin, others, request.connections)
    begun = [*zip(others, started, strict=True), *((one, begin(one)) for one in lists)]
    downloads = [(file, one) for file, one in begun if not isinstance(one, Record)]
    total = sum(one.version.size for _, one in begun)
    missing = sum(one.version.size - one.present for _, one in downloads)
    recorder.fetch_planned(total)
    recorder.fetched(total - missing)
    # Images are compressed already, so an archive has about the same size without compression.
    content = sum(one.version.size for file, one in downloads if file.is_archive and one.is_packed)
    files.require_space(
        request.cache, missing + content, f"the fetch of {missing + content} bytes", REMEDY
    )
    with ExitStack() as connections:
        for _, download in downloads:
            connections.callback(download.close)
        for file, download in downloads:
            _log.info("%s: fetching", file.entry.where)
            with _one_version(file):
                download.fetch(request.connections, recorder)
            _store(file, download)
    records = (file.entry.record() for file in request.files)
    return sum(record.version.size for record in records if record is not None)


@contextmanager
def _one_version(file: FileToFetch) -> Iterator[None]:
    """Raises an error that another try may not have, if the file changes meanwhile."""
    try:
        yield
    except SourceChangedError as error:
        raise WorkloadError(
            f"{file.entry.where}: has changed while it was fetched; "
            "the next try fetches the new file"
        ) from error


def _begin(file: FileToFetch, owner: str) -> Record | Download:
    """Asks the server for the version of a file, unless the cache has it with its checksum."""
    folder, record = file.entry.folder, file.entry.newest()
    temporary = f".{file.name}.tmp-"
    path = folder / f"{temporary}{owner or 'local'}"
    if record is not None and record.checksum == file.checksum != "":
        file.entry.keep(record)
        _clean_up(file, path, record)
        return record
    blob = file.open()
    is_same = record is not None and _is_same(record.version, blob.version)
    if record is not None and record.checksum == file.checksum and is_same:
        blob.close()
        file.entry.keep(record)
        _clean_up(file, path, record)
        return record
    with files.storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files.sweep(folder, ABANDONED_SECONDS)
    if isinstance(blob, WholeFile):
        return Whole(blob, path)
    take_over(path, temporary, blob.version.to_document())
    with _one_version(file):
        return Ranges(blob, path)


def _is_same(before: Version, now: Version) -> bool:
    if now.size == 0 and not (now.etag or now.last_modified):
        return False
    try:
        # A server without ranges may not give the size.
        before.require(replace(now, size=now.size or before.size))
    except InputError:
        return False
    return True


def _store(file: FileToFetch, download: Download) -> None:
    folder, path, version = file.entry.folder, download.path, download.version
    if file.checksum:
        _check(file, path)
    content = _decompress(file, path) if file.is_archive else path
    size = content.stat().st_size
    described = json.dumps([version.to_document(), file.checksum])
    name = f"{hashlib.sha256(described.encode()).hexdigest()[:12]}-{file.name}"
    with files.storage_errors(folder):
        content.rename(folder / name)
        files.sync(folder)
    record = Record(version, file.checksum, name, size)
    file.entry.store(record)
    _clean_up(file, path, record)


def _clean_up(file: FileToFetch, path: Path, record: Record) -> None:
    """Deletes all but the content; a process that was killed may not have got to it.

    Only one version is kept, and those that other jobs may still read: an archive may take most of
    the volume.
    """
    oldest = files.volume_clock(file.entry.folder) - ABANDONED_SECONDS
    kept = {record.content, *file.entry.kept_for_others(oldest)}
    former = [
        entry
        for entry in file.entry.folder.iterdir()
        if entry.name.endswith(f"-{file.name}") and entry.name not in kept
    ]
    for left in (path, journal_of(path), _content_of(path), *former):
        left.unlink(missing_ok=True)
    for folder in file.stale_folders():
        with files.storage_errors(folder):
            shutil.rmtree(folder, onerror=_ignore_missing)


def _ignore_missing(_call: Any, _path: str, raised: tuple[Any, BaseException, Any]) -> None:
    """Raises the errors of a deletion, unless another fetch has deleted the same folder."""
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]


def _content_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.content")


def _check(file: FileToFetch, path: Path) -> None:
    algorithm, _, digest = file.checksum.partition(":")
    found = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as opened:
        while chunk := opened.read(BLOCK):
            found.update(chunk)
    if found.hexdigest() != digest:
        journal_of(path).unlink(missing_ok=True)
        path.unlink()
        raise InputError(
            f"{file.entry.where}: has the {algorithm} {found.hexdigest()} in place of {digest}; "
            f"{file.checksum_remedy}"
        )


def _decompress(file: FileToFetch, path: Path) -> Path:
    blob = CachedFile(path, path.stat().st_size)
    try:
        if compressed.format_of(blob.read(0, compressed.MAGIC)) is None:
            return path
        _log.info("%s: decompressing", file.entry.where)
        content = _content_of(path)
        written = 0
        with room(content, blob.size), content.open("wb") as opened:
            for chunk in compressed.chunks(blob):
                with room(content, max(len(chunk), blob.size - written)):
                    written += opened.write(chunk)
            opened.flush()
            os.fsync(opened.fileno())
        return content
    finally:
        blob.close()
