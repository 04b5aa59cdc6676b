"""Descriptors of the cached files that were read last.

A source may have more files than a process may open, and a training set reads them in any order.
"""

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from imagenet_workloads import regular_files

MOST_OPEN_FILES = 256
"""The most descriptors that stay open. A process may open 1,024 files, and has others."""


@dataclass
class _OpenFile:
    """A descriptor, and the number of reads that use it now."""

    descriptor: int
    reads: int = 0


class OpenFiles:
    """Files that stay open until others were read later; may be used from several threads."""

    def __init__(self) -> None:
        """Opens nothing yet."""
        self._lock = Lock()
        self._open: OrderedDict[Hashable, _OpenFile] = OrderedDict()

    def read(self, reader: Hashable, path: Path, offset: int, size: int) -> bytes:
        """The bytes of a range.

        Args:
            reader: who reads: each reader has a descriptor of its file.
            path: of the file.
            offset: of the first byte.
            size: in bytes.

        Raises:
            InputError: the path leads to no file.
            OSError: it cannot be opened or read.
        """
        with self._descriptor(reader, path) as descriptor:
            return os.pread(descriptor, size, offset)

    def close(self, reader: Hashable) -> None:
        """Closes the file of a reader, if it is open."""
        with self._lock:
            file = self._open.pop(reader, None)
        if file is not None:
            os.close(file.descriptor)

    @contextmanager
    def _descriptor(self, reader: Hashable, path: Path) -> Iterator[int]:
        with self._lock:
            file = self._open.get(reader)
            if file is None:
                file = self._open[reader] = _OpenFile(regular_files.open_file(path))
            self._open.move_to_end(reader)
            file.reads += 1
        try:
            yield file.descriptor
        finally:
            with self._lock:
                file.reads -= 1
                self._close_oldest()

    def _close_oldest(self) -> None:
        """Closes the files that were read longest ago, unless a thread reads them now."""
        surplus = len(self._open) - MOST_OPEN_FILES
        if surplus > 0:
            idle = [reader for reader, file in self._open.items() if not file.reads]
            for reader in idle[:surplus]:
                os.close(self._open.pop(reader).descriptor)
