"""Writes the events of an attempt: metrics.jsonl for programs, and lines of text.

Only the worker that reports for the job opens a log. Each event is a single append of a whole line,
so readers never see a partial line between two.
"""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from imagenet_spec.names import EVENTS_FILE
from imagenet_workloads.errors import output_error
from imagenet_workloads.telemetry.events import Event, to_line

READABLE_NAME = "train.log"

_log = logging.getLogger("imagenet_workloads.training")


class EventLog:
    """Appends events to metrics.jsonl in a folder, and logs each as text.

    Use it as a context manager, or call `close`. After a partial line of an earlier crash, a new
    line is started.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file; create it and its folder if they are missing.

        Args:
            folder: The attempt's folder.
            clock: Returns the seconds since 1970.

        Raises:
            StorageError: The folder or file cannot be written.
        """
        self.path = folder / EVENTS_FILE
        self._clock = clock
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666
            )
            end = os.lseek(self._descriptor, 0, os.SEEK_END)
            if end and os.pread(self._descriptor, 1, end - 1) != b"\n":
                self._append(b"\n")
        except OSError as error:
            raise output_error(f"cannot write {self.path}", error) from error

    def write(self, event: Event) -> None:
        """Append one event with the current time.

        Raises:
            VolumeFullError: The volume is full.
            StorageError: The line cannot be written.
        """
        line = to_line(event, self._clock()) + "\n"
        try:
            self._append(line.encode())
        except OSError as error:
            raise output_error(f"cannot write {self.path}", error) from error
        _log.info(event.sentence())

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, content: bytes) -> None:
        # One write(2) in append mode is contiguous in the file; after a short one (a full volume)
        # the second call fails.
        while content:
            content = content[os.write(self._descriptor, content) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def log_readably(path: Path | None = None) -> None:
    """Send the log of this process to stderr, and to a file if `path` is given.

    Lines read `2017-12-04 09:30:00,000 INFO message`. Another call replaces the former handlers.

    Raises:
        StorageError: The file cannot be written.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(logging.FileHandler(path, encoding="utf-8"))
        except OSError as error:
            raise output_error(f"cannot write {path}", error) from error
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        handlers=handlers,
        force=True,
    )
