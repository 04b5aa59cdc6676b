"""Keeps what index has listed of a source of many archives, so that another run goes on from there.

A tar of 21,841 tars takes an hour to list. Each inner archive that is listed becomes a line of a
file on the dataset volume. A run that was killed leaves the file, and the next run lists only the
other archives. A line has a checksum: one that was cut off, or that two runs have mixed, is
ignored. The name of the file is a hash of all by which a change of the source is noticed.
"""

import hashlib
import json
import os
import stat
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from imagenet_workloads import files
from imagenet_workloads.errors import StorageError
from imagenet_workloads.prepare.source import Journal, Notes, Source

_PREFIX = ".listing-"
# Of the lines: others are those of another release.
_VERSION = 2
# A job may be suspended for days.
KEPT_SECONDS = 14 * 24 * 3600


class ListingJournal(Journal):
    """The archives of a source that are listed, in a file; may be used from several threads."""

    def __init__(self, path: Path) -> None:
        """Open a journal, or begin one.

        Raises:
            StorageError: The volume cannot be written.
        """
        self._path = path
        self._lock = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}
        with files.storage_errors(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._read()

    def listed(self, archive: str, scan: Callable[[Notes], str]) -> tuple[str, Notes]:
        """Return the images of an archive as JSON, and the notes of their scan.

        Args:
            archive: What identifies it within the source, with its size.
            scan: Lists it, if no run has before.

        Raises:
            InputError: It cannot be listed.
            StorageError: The volume is full.
        """
        if archive in self._places:
            start, size = self._places[archive]
            _, images, suffixes, empty = json.loads(os.pread(self._descriptor, size, start))
            return images, Notes(sum(suffixes.values()), Counter(suffixes), empty)
        notes = Notes()
        images = scan(notes)
        self._add(json.dumps([archive, images, notes.suffixes, notes.empty]).encode())
        return images, notes

    def remove(self) -> None:
        """Delete the file: the plan has all of it."""
        with suppress(FileNotFoundError):
            self._path.unlink()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _add(self, entry: bytes) -> None:
        line = b"%08x %s\n" % (zlib.crc32(entry), entry)
        with self._lock, files.storage_errors(self._path):
            while line:
                line = line[os.write(self._descriptor, line) :]

    def _read(self) -> None:
        line, end = b"\n", 0
        with files.storage_errors(self._path), self._path.open("rb") as file:
            for line in file:
                start, end = end, end + len(line)
                checksum, entry = line[:8], line[9:].removesuffix(b"\n")
                if b"%08x" % zlib.crc32(entry) == checksum:
                    self._places[json.loads(entry)[0]] = (start + 9, len(entry))
            if not line.endswith(b"\n"):
                os.write(self._descriptor, b"\n")


@contextmanager
def kept(source: Source, folder: Path) -> Iterator[None]:
    """Have the scans of a source in the block go on where an earlier run was killed.

    Args:
        source: Of any kind; those that are not of many archives keep nothing.
        folder: On the dataset volume.

    Raises:
        StorageError: The volume cannot be written.
    """
    name = _name(source)
    if name is None:
        yield
        return
    _remove_abandoned(folder)
    journal = ListingJournal(folder / name)
    source.journal = journal
    try:
        yield
        journal.remove()
    except StorageError:
        # A full volume needs the room.
        journal.remove()
        raise
    finally:
        source.journal = Journal()
        journal.close()


def _name(source: Source) -> str | None:
    """The name of a source's journal; None if it keeps none, or its change would not be noticed."""
    if source.identity is None:
        return None
    identity: list[Any] = [_VERSION, source.where, dict(source.identity)]
    if not source.identity:
        try:
            found = Path(source.where).stat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        identity += [found.st_ino, found.st_size, found.st_mtime_ns]
    return f"{_PREFIX}{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]}"


def _remove_abandoned(folder: Path) -> None:
    with files.storage_errors(folder):
        now = files.volume_clock(folder)
        for entry in os.scandir(folder):
            if entry.name.startswith(_PREFIX):
                with suppress(FileNotFoundError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > KEPT_SECONDS:
                        Path(entry.path).unlink()
