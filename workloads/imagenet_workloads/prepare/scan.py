"""Lists a source, with a few bytes of memory for each image.

Memory holds 12 bytes an image: its class and the offset of its row. The row (offset, size, name) is
in an unnamed file on the dataset volume until the plan is written. The fingerprint covers
everything that was listed.

A tar of 21,841 tars takes an hour to list. So each inner archive that is listed becomes a line of a
journal on the dataset volume. A run that was killed leaves the file, and the next run lists only
the other archives. A line has a checksum: one that was cut off, or that two runs have mixed, is
ignored. The name of the file is a hash of all by which a change of the source is noticed.
"""

import hashlib
import json
import os
import stat
import struct
import threading
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads import files
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.prepare import transcode
from imagenet_workloads.prepare.entry_names import IMAGE_SUFFIXES
from imagenet_workloads.prepare.layouts.choice import count
from imagenet_workloads.prepare.source import Image, Journal, Notes, Source

_ROW = struct.Struct("<QQI")
# Bytes to read for a row: its fixed part and nearly every name.
_READ = _ROW.size + 236

# Rows that are written together: each by itself would take longer.
_AT_ONCE = 256
# Counting each image separately would cost more than finding it.
REPORT_EVERY = 1000


Row = tuple[int, int, str]
"""The location of one image, for pack: its offset, size and name."""


class Scan:
    """The images of one source, numbered in the order of the listing."""

    def __init__(self, rows: IO[bytes]) -> None:
        """Start empty; `rows` is an empty file, open for reading and writing."""
        self.class_names: list[str] = []  # classes, in the order of their first image
        self.bytes = 0
        self.notes = Notes()
        self._rows = rows
        self._folder = Path(rows.name).parent
        self._end = 0
        self._classes = array("I")
        self._places = array("Q")
        # Of each class, its name in UTF-8 as well.
        self._numbers: dict[str, tuple[int, bytes]] = {}
        self._hash = hashlib.sha256()
        self._waiting: list[bytes] = []
        self._hashed: list[bytes] = []

    def __len__(self) -> int:
        return len(self._places)

    def add(self, image: Image) -> None:
        class_name, path, offset, size, mtime = image
        known = self._numbers.get(class_name)
        if known is None:
            known = self._numbers[class_name] = len(self.class_names), class_name.encode()
            self.class_names.append(class_name)
        number, encoded = known
        name = path.encode("utf-8", "surrogateescape")
        self._waiting.append(_ROW.pack(offset, size, len(name)) + name)
        self._hashed.append(b"%s\0%s\0%d %d %d\n" % (encoded, name, offset, size, mtime))
        if len(self._waiting) == _AT_ONCE:
            self._write()
        self._classes.append(number)
        self._places.append(self._end)
        self._end += _ROW.size + len(name)
        self.bytes += size

    def finish(self) -> None:
        """Make every row readable; no image may be added after it."""
        self._write()
        with files.storage_errors(self._folder):
            self._rows.flush()

    def _write(self) -> None:
        with files.storage_errors(self._folder):
            self._rows.writelines(self._waiting)
        self._hash.update(b"".join(self._hashed))
        self._waiting, self._hashed = [], []

    def fingerprint(self) -> str:
        """The hex SHA-256 over class, name, offset, size and time of every image."""
        return self._hash.hexdigest()

    def classes(self) -> npt.NDArray[np.uint32]:
        """The position in `class_names` of each image's class."""
        return np.frombuffer(self._classes, np.uint32) if self._classes else np.empty(0, np.uint32)

    def row(self, number: int) -> Row:
        descriptor, place = self._rows.fileno(), self._places[number]
        block = os.pread(descriptor, _READ, place)
        offset, size, length = _ROW.unpack_from(block)
        name = block[_ROW.size : _ROW.size + length]
        if len(name) < length:
            name = os.pread(descriptor, length, place + _ROW.size)
        return offset, size, name.decode("utf-8", "surrogateescape")

    def rows(self) -> Iterator[Row]:
        return (self.row(number) for number in range(len(self)))


def scan(source: Source, rows: IO[bytes], listed: Callable[[int, float], None]) -> Scan:
    """List a source.

    `rows` is an empty file. `listed` gets the number of images found, and the share of the source
    that is listed.

    Raises:
        InputError: The source cannot be listed, has no images, or has some that need a decoder
            that is not installed.
    """
    result = Scan(rows)
    result.notes.report = listed
    for number, image in enumerate(source.scan(result.notes), 1):
        if image[1][-5:].lower() in transcode.HEIF_SUFFIXES:
            transcode.require_decoder(image.name, source.where)
        result.add(image)
        if number % REPORT_EVERY == 0 and not result.notes.reported:
            listed(REPORT_EVERY, result.notes.share)
    if not len(result):
        notes, others = result.notes, []
        if notes.empty:
            others.append(count(len(notes.empty), "empty class", "empty classes"))
        if notes.ignored:
            suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
            verb = "is" if notes.ignored == 1 else "are"
            ignored = count(notes.ignored, "file")
            others.append(f"{ignored} that {verb} not named like images ({suffixes})")
        instead = f", only {' and '.join(others)}; give a folder or archive that does"
        raise InputError(f"{source.where}: holds no images{instead if others else ''}")
    if not result.notes.reported:
        listed(len(result) % REPORT_EVERY, 1.0)
    result.finish()
    return result


_PREFIX = ".listing-"
# Of the lines: others are those of another release.
_VERSION = 2
# A job may be suspended for days.
KEPT_SECONDS = 14 * 24 * 3600


class ListingJournal(Journal):
    """The archives of a source that are listed, in a file; may be used from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}
        with files.storage_errors(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        line, end = b"\n", 0
        with files.storage_errors(path), path.open("rb") as file:
            for line in file:
                start, end = end, end + len(line)
                checksum, entry = line[:8], line[9:].removesuffix(b"\n")
                if b"%08x" % zlib.crc32(entry) == checksum:
                    self._places[json.loads(entry)[0]] = (start + 9, len(entry))
            if not line.endswith(b"\n"):
                os.write(self._descriptor, b"\n")

    def listed(self, archive: str, scan: Callable[[Notes], str]) -> tuple[str, Notes]:
        if archive in self._places:
            start, size = self._places[archive]
            _, images, suffixes, empty = json.loads(os.pread(self._descriptor, size, start))
            return images, Notes(sum(suffixes.values()), Counter(suffixes), empty)
        notes = Notes()
        images = scan(notes)
        added = json.dumps([archive, images, notes.suffixes, notes.empty]).encode()
        line = b"%08x %s\n" % (zlib.crc32(added), added)
        with self._lock, files.storage_errors(self._path):
            while line:
                line = line[os.write(self._descriptor, line) :]
        return images, notes

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def kept_listing(source: Source, folder: Path) -> Iterator[None]:
    """Have the scans of a source in the block go on where an earlier run was killed."""
    name = _name(source)
    if name is None:
        yield
        return
    with files.storage_errors(folder):
        now = files.volume_clock(folder)
        for entry in os.scandir(folder):
            if entry.name.startswith(_PREFIX):
                with suppress(FileNotFoundError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > KEPT_SECONDS:
                        Path(entry.path).unlink()
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
