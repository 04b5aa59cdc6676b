"""Lists a source once: what index must keep of each image, in a few bytes.

In memory stay 12 bytes an image: its class and where its row stands. The row itself (offset, size,
name) waits in a nameless file on the dataset volume until the plan is written. The fingerprint
covers all that was listed.
"""

import hashlib
import os
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import atomic_files
from imagenet_workloads.prepare.sources.source import IMAGE_SUFFIXES, Image, Notes, Source

_ROW = struct.Struct("<QQI")
# What is read at once to find a row: its fixed part and nearly every name.
_READ = _ROW.size + 236

# Counting each image alone would cost more than finding it.
REPORT_EVERY = 1000


class Row(NamedTuple):
    """What pack needs to find one image."""

    offset: int
    size: int
    name: str


class Scan:
    """The images of one source, numbered in the order in which they were listed.

    Attributes:
        class_names: in the order of their first image.
        bytes: of all images together.
        notes: what was passed over.
    """

    def __init__(self, rows: IO[bytes]) -> None:
        """Starts empty; `rows` is an empty file, open for reading and writing."""
        self.class_names: list[str] = []
        self.bytes = 0
        self.notes = Notes()
        self._rows = rows
        self._folder = Path(rows.name).parent
        self._end = 0
        self._classes = array("I")
        self._places = array("Q")
        self._numbers: dict[str, int] = {}
        self._hash = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, image: Image) -> None:
        """Takes down one image.

        Raises:
            StorageError: the volume is full.
        """
        number = self._numbers.get(image.class_name)
        if number is None:
            number = self._numbers[image.class_name] = len(self.class_names)
            self.class_names.append(image.class_name)
        name = image.name.encode("utf-8", "surrogateescape")
        row = _ROW.pack(image.offset, image.size, len(name)) + name
        try:
            self._rows.write(row)
        except OSError as error:
            atomic_files.explain(self._folder, error)
        self._classes.append(number)
        self._places.append(self._end)
        self._end += len(row)
        self.bytes += image.size
        self._hash.update(
            b"%s\0%s\0%d %d %d\n"
            % (image.class_name.encode(), name, image.offset, image.size, image.mtime)
        )

    def finish(self) -> None:
        """Makes every row readable; nothing may be added after."""
        with atomic_files.telling_where(self._folder):
            self._rows.flush()

    def fingerprint(self) -> str:
        """Hex SHA-256 over class, name, offset, size and time of every image."""
        return self._hash.hexdigest()

    def classes(self) -> npt.NDArray[np.uint32]:
        """The position in `class_names` of each image's class."""
        return np.frombuffer(self._classes, np.uint32) if self._classes else np.empty(0, np.uint32)

    def row(self, number: int) -> Row:
        """Finds one image again."""
        descriptor, place = self._rows.fileno(), self._places[number]
        block = os.pread(descriptor, _READ, place)
        offset, size, length = _ROW.unpack_from(block)
        name = block[_ROW.size : _ROW.size + length]
        if len(name) < length:
            name = os.pread(descriptor, length, place + _ROW.size)
        return Row(offset, size, name.decode("utf-8", "surrogateescape"))

    def rows(self) -> Iterator[Row]:
        """All images, in order."""
        return (self.row(number) for number in range(len(self)))


def scan(source: Source, rows: IO[bytes], listed: Callable[[int, float], None]) -> Scan:
    """Lists a source.

    Args:
        source: what to list.
        rows: an empty file for the rows.
        listed: is told of images as they are found, and of how much of the source that was.

    Raises:
        InputError: the source cannot be listed, or holds no images.
    """
    result = Scan(rows)
    for image in source.scan(result.notes):
        result.add(image)
        if len(result) % REPORT_EVERY == 0:
            listed(REPORT_EVERY, result.notes.share)
    if not len(result):
        raise InputError(f"{source.where}: holds no images{_instead(result.notes)}")
    listed(len(result) % REPORT_EVERY, 1.0)
    result.finish()
    return result


def _instead(notes: Notes) -> str:
    """What a source without images has in their place, as far as that may help."""
    found = []
    if notes.empty:
        found.append(f"{len(notes.empty)} empty classes")
    if notes.ignored:
        suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
        found.append(f"{notes.ignored} files that are not named like images ({suffixes})")
    return f", only {' and '.join(found)}; give a folder or archive that does" if found else ""
