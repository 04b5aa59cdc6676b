"""The finished epochs of a local job, read from the logs of its attempts while they grow.

`run` asks after each reconcile and before each event, so an epoch is shown before what follows it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from imagenet_spec import volume_files
from imagenet_spec.curves import Epoch, EpochCollector
from imagenet_spec.events import attempt_folders, from_line
from imagenet_spec.names import EVENTS_FILE


class EpochLog:
    """The epochs of a job's results, whose folder may not exist yet."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._logs: dict[Path, _GrowingLog] = {}

    def new(self, is_end: bool = False) -> list[Epoch]:
        """Return the epochs that are complete since the last call.

        At the end, the last one is complete without a validation too.
        """
        found = []
        folders = attempt_folders(self._results)
        for folder in folders:
            log = self._logs.setdefault(folder, _GrowingLog(folder / EVENTS_FILE))
            # The next attempt starts when all pods of this one are gone.
            found += log.new(is_end or folder != folders[-1])
        return found


class _GrowingLog:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._collector = EpochCollector()

    def new(self, is_end: bool) -> list[Epoch]:
        """Return the epochs of the lines that are new; a partial line is read when it is whole."""
        try:
            with volume_files.opened(self._path) as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:  # the training matters more than its display
            return []
        self._read += len(whole + newline)
        found = []
        for line in whole.decode(errors="replace").splitlines():
            # A line that was cut by a crash says nothing.
            with suppress(ValueError):
                event = from_line(line)
                if event is not None:
                    found += self._collector.add(*event)
        return found + (self._collector.end() if is_end else [])
