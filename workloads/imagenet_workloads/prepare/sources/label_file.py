"""A file of labels or names: on a volume, or a member of an archive."""

import io
import os
from pathlib import Path
from typing import Protocol

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError


class LabelFile(Protocol):
    """A small file; str() is its name in messages."""

    def open(self) -> io.BufferedReader:
        """Opens it for reading.

        Raises:
            OSError: it cannot be read.
            InputError: it is no file, or has changed.
        """

    def beside(self, name: str) -> "LabelFile | None":
        """The file of this name in the same folder; None if there is none."""


class FileOnVolume:
    """A file of a file system as a `LabelFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def open(self) -> io.BufferedReader:
        """Opens it for reading."""
        return os.fdopen(regular_files.open_file(self._path), "rb")

    def beside(self, name: str) -> LabelFile | None:
        """The file of this name in the same folder."""
        path = self._path.with_name(name)
        return FileOnVolume(path) if regular_files.exists(path) else None


class InMemory:
    """The content of a file, which is read once."""

    def __init__(self, file: LabelFile) -> None:
        """Reads the file.

        Raises:
            InputError: it cannot be read.
        """
        self._file = file
        self._content = content(file)

    def __str__(self) -> str:
        return str(self._file)

    def open(self) -> io.BufferedReader:
        """Its content."""
        return io.BufferedReader(io.BytesIO(self._content))

    def beside(self, name: str) -> LabelFile | None:
        """The file of this name in the same folder."""
        return self._file.beside(name)


def of(file: Path | LabelFile) -> LabelFile:
    """A path or label file as a label file."""
    return FileOnVolume(file) if isinstance(file, Path) else file


def content(file: Path | LabelFile) -> bytes:
    """All bytes of a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with of(file).open() as opened:
            return opened.read()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
