"""Lists a source, with a few bytes of memory for each image.

Memory holds 12 bytes an image: its class and the offset of its row. The row (offset, size, name) is
in an unnamed file on the dataset volume until the plan is written. The fingerprint covers
everything that was listed.
"""

import hashlib
import os
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import heif
from imagenet_workloads.prepare.entry_names import IMAGE_SUFFIXES
from imagenet_workloads.prepare.layouts.choice import count
from imagenet_workloads.prepare.source import Image, Notes, Source

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
    """The images of one source, numbered in the order of the listing.

    Attributes:
        class_names: The classes, in the order of their first image.
        bytes: The bytes of all images.
        notes: What was ignored.
    """

    def __init__(self, rows: IO[bytes]) -> None:
        """Start empty; `rows` is an empty file, open for reading and writing."""
        self.class_names: list[str] = []
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
        """Add one image.

        Raises:
            StorageError: The volume is full.
        """
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
        """Make every row readable; no image may be added after it.

        Raises:
            StorageError: The volume is full.
        """
        self._write()
        with files.storage_errors(self._folder):
            self._rows.flush()

    def _write(self) -> None:
        with files.storage_errors(self._folder):
            self._rows.writelines(self._waiting)
        self._hash.update(b"".join(self._hashed))
        self._waiting, self._hashed = [], []

    def fingerprint(self) -> str:
        """Return the hex SHA-256 over class, name, offset, size and time of every image."""
        return self._hash.hexdigest()

    def classes(self) -> npt.NDArray[np.uint32]:
        """Return the position in `class_names` of each image's class."""
        return np.frombuffer(self._classes, np.uint32) if self._classes else np.empty(0, np.uint32)

    def row(self, number: int) -> Row:
        """Return the location of one image."""
        descriptor, place = self._rows.fileno(), self._places[number]
        block = os.pread(descriptor, _READ, place)
        offset, size, length = _ROW.unpack_from(block)
        name = block[_ROW.size : _ROW.size + length]
        if len(name) < length:
            name = os.pread(descriptor, length, place + _ROW.size)
        return offset, size, name.decode("utf-8", "surrogateescape")

    def rows(self) -> Iterator[Row]:
        """Return all images, in order."""
        return (self.row(number) for number in range(len(self)))


def scan(source: Source, rows: IO[bytes], listed: Callable[[int, float], None]) -> Scan:
    """List a source.

    Args:
        source: The source.
        rows: An empty file for the rows.
        listed: Called with the number of images found, and with the fraction of the source that is
            listed.

    Raises:
        InputError: The source cannot be listed, has no images, or has some that need a decoder
            that is not installed.
    """
    result = Scan(rows)
    result.notes.report = listed
    for number, image in enumerate(source.scan(result.notes), 1):
        if image[1][-5:].lower() in heif.SUFFIXES:
            heif.require_decoder(image.name, source.where)
        result.add(image)
        if number % REPORT_EVERY == 0 and not result.notes.reported:
            listed(REPORT_EVERY, result.notes.share)
    if not len(result):
        raise InputError(f"{source.where}: holds no images{_instead(result.notes)}")
    if not result.notes.reported:
        listed(len(result) % REPORT_EVERY, 1.0)
    result.finish()
    return result


def _instead(notes: Notes) -> str:
    """Return what a source without images has instead, for a message."""
    found = []
    if notes.empty:
        found.append(count(len(notes.empty), "empty class", "empty classes"))
    if notes.ignored:
        suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
        verb = "is" if notes.ignored == 1 else "are"
        ignored = count(notes.ignored, "file")
        found.append(f"{ignored} that {verb} not named like images ({suffixes})")
    return f", only {' and '.join(found)}; give a folder or archive that does" if found else ""
