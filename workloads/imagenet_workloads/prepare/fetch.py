"""`imagenet-fetch`: stores files of a server in a cache on a volume, before index lists them.

The steps: ask the server for the version of each file, check the free space, fetch what is missing,
compare the checksum, decompress an archive, rename the file, and write `fetched.json` last. A
process that is killed at any byte leaves what the next one continues.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from imagenet_workloads import files
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.download import (
    BLOCK,
    REMEDY,
    Download,
    Ranges,
    Whole,
    journal_of,
    room,
    take_over,
)
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources.cache import (
    ABANDONED_SECONDS,
    CachedFile,
    FileToFetch,
    Record,
)
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import SourceChangedError
from imagenet_workloads.prepare.stores.remote import Version, WholeFile
from imagenet_workloads.telemetry.preparation import PreparationRecorder

CONNECTIONS = 8
"""The default number of requests at the same time."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FetchRequest:
    """The options of a fetch.

    Attributes:
        files: the files of the source.
        cache: the folder of the volume.
        connections: the most requests at the same time.
        owner: the UID of the job, in the names of its temporary files; empty without an operator.
    """

    files: Sequence[FileToFetch]
    cache: Path
    connections: int = CONNECTIONS
    owner: str = ""


@dataclass(frozen=True)
class FetchResult:
    """The result of a fetch, which the operator reads.

    Attributes:
        bytes: of all files, as the server has them.
    """

    bytes: int

    def to_document(self) -> dict[str, Any]:
        """As JSON values."""
        return {"bytes": self.bytes, "totalBytes": self.bytes}


def run(request: FetchRequest, recorder: PreparationRecorder) -> FetchResult:
    """Stores every file that the cache lacks.

    Raises:
        InputError: the server refuses, or a file has another checksum.
        StorageError: the volume has too little room, or cannot be written.
        WorkloadError: the server cannot be reached, or a file has changed meanwhile.
    """
    files.make_folder(request.cache)
    begun = _begin_all(request, recorder)
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
    return FetchResult(sum(record.version.size for record in records if record is not None))


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


def _begin_all(
    request: FetchRequest, recorder: PreparationRecorder
) -> list[tuple[FileToFetch, Record | Download]]:
    """Begins many files at the same time, and then the lists of them."""
    contents = [file for file in request.files if not file.is_list]
    lists = [file for file in request.files if file.is_list]
    recorder.fetch_files(len(request.files))
    _log.info("asking for the versions of %d files", len(request.files))

    def begin(file: FileToFetch) -> Record | Download:
        found = _begin(file, request.owner)
        recorder.fetch_asked()
        return found

    begun = map_in_order(begin, contents, request.connections)
    return [*zip(contents, begun, strict=True), *((one, begin(one)) for one in lists)]


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
    """Makes a file visible that was fetched as a whole."""
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
    """The temporary file for the content of a compressed archive."""
    return path.with_name(f"{path.name}.content")


def _check(file: FileToFetch, path: Path) -> None:
    """Compares the checksum of a file.

    Raises:
        InputError: it has another one.
    """
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
    """Decompresses an archive into another temporary file; returns the file with the content."""
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
