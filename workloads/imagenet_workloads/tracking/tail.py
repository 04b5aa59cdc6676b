"""Reads the event logs of all attempts of a job as they grow."""

import logging
from collections.abc import Iterator
from pathlib import Path

from imagenet_spec import volume_files
from imagenet_spec.events import Event, attempt_folders, from_line
from imagenet_spec.names import EVENTS_FILE

_log = logging.getLogger(__name__)


class Tail:
    """The events that were added since the last look.

    An attempt's log is read until a later attempt has one. So events come in their order, even if
    the pod of an earlier attempt has not noticed that it is replaced.
    """

    def __init__(self, results: Path) -> None:
        """Read nothing yet. `results` has the folder of the attempts."""
        self._results = results
        self._log: Path | None = None
        self._offset = 0

    def read(self) -> Iterator[tuple[float, Event]]:
        """Yield the further events with their times; OSError if a log cannot be read."""
        for folder in attempt_folders(self._results):
            log = folder / EVENTS_FILE
            if self._log is not None and _order(log) < _order(self._log):
                continue
            if log != self._log:
                self._log, self._offset = log, 0
            with volume_files.opened(log) as file:
                file.seek(self._offset)
                content = file.read()
            # The last line may not be complete yet.
            whole, _, _ = content.rpartition(b"\n")
            if not whole:
                continue
            self._offset += len(whole) + 1
            for line in whole.decode(errors="replace").split("\n"):
                try:
                    found = from_line(line) if line else None
                except ValueError as error:
                    _log.warning("a line of %s is ignored: %s", log, error)
                    continue
                if found is not None:
                    yield found


def _order(log: Path) -> tuple[int, str]:
    """The place of an attempt's log among the others: r2 before r10."""
    return len(log.parent.name), log.parent.name
