"""A file that imagenet-fetch writes in blocks, which another process can complete after a kill.

The file has a temporary name. A journal is beside it. Its first line has the version of the
server's file. The other lines are the blocks that are on the disk.
"""

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from imagenet_workloads import files

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

    Args:
        path: the temporary name; if there is such a file, nothing is renamed.
        others: the beginning of the temporary names of all jobs.
        version: of the server's file, as JSON values; the other job's must equal it.

    Raises:
        StorageError: the volume cannot be written.
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
    """Returns the first line of a journal."""
    return json.dumps({"version": version, "block": BLOCK})


class PartialFile:
    """A file without some of its blocks; `write` may be called from several threads.

    Attributes:
        path: the temporary name.
        size: in bytes.
        present: the bytes of the blocks that are on the disk.
    """

    def __init__(self, path: Path, version: dict[str, Any], size: int) -> None:
        """Continues the file of an earlier process, or begins one.

        Args:
            path: the temporary name.
            version: of the server's file, as JSON values; with another one, it begins again.
            size: in bytes.

        Raises:
            StorageError: the volume cannot be written.
        """
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
                self._begin()
        self._blocks = blocks or set()
        self.present = sum(map(self._length, self._blocks))

    def missing(self) -> list[int]:
        """The numbers of the blocks that are not on the disk."""
        return [one for one in range(-(-self.size // BLOCK)) if one not in self._blocks]

    def span(self, block: int) -> tuple[int, int]:
        """The first byte of a block, and its length."""
        return block * BLOCK, self._length(block)

    def write(self, block: int, data: bytes) -> None:
        """Writes a block to the disk, then notes it in the journal.

        Raises:
            OSError: the volume cannot be written.
        """
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
        """Syncs the file to the volume."""
        os.fsync(self._data)

    def close(self) -> None:
        """Closes the file; it can be continued."""
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

    def _begin(self) -> None:
        os.ftruncate(self._journal, 0)
        os.ftruncate(self._data, 0)
        os.ftruncate(self._data, self.size)
        os.fsync(self._data)
        os.write(self._journal, f"{self._header}\n".encode())
