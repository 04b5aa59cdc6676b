"""Writes the events of an attempt: each is a line of metrics.jsonl, and a line of the log.

Only the worker that reports for the job opens an `EventLog`. Each event is a single append of a
whole line, so readers never see a partial line between two. Before that, a worker asks how far
earlier attempts came.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from time import time as now

from imagenet_spec.events import LOG_FORMAT, Event, Run, attempt_folders, read_runs, to_line
from imagenet_spec.names import EVENTS_FILE
from imagenet_workloads.errors import output_error

_READABLE_BYTES = 5_000_000
"""The size at which the readable log becomes train.log.1, in place of the one before. Together they
hold the last 5 to 10 MB."""

_readable = logging.getLogger("imagenet_workloads.training")


def trained_before(output: Path, training: str) -> float:
    """Return how many epochs the earlier runs of a training came to, with their fraction.

    Later steps of theirs are lost, and trained again. A log names a position after each display
    interval, so the steps of the last interval are not known.
    """
    furthest = 0.0
    for run in runs_of(output, training):
        batches = run.start[1].batches_per_epoch
        if batches:
            for _, reached in run.progress:
                furthest = max(furthest, reached.epoch + reached.batch / batches)
    return furthest


def runs_of(output: Path, training: str) -> list[Run]:
    """Return the runs of a training in the order of time; none if a log cannot be read."""
    try:
        runs = read_runs(attempt_folders(output))
    except OSError:
        return []
    return [run for run in runs if run.start[1].training == training]


class EventLog:
    """Appends events to metrics.jsonl in a folder, and logs each as text.

    After a partial line of an earlier crash, a new line is started.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = now) -> None:
        """Open the file in the attempt's folder; create both if they are missing.

        StorageError if the folder or file cannot be written.
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

        VolumeFullError if the volume is full, StorageError if the line cannot be written.
        """
        line = to_line(event, self._clock()) + "\n"
        try:
            self._append(line.encode())
        except OSError as error:
            raise output_error(f"cannot write {self.path}", error) from error
        _readable.info(event.sentence())

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, content: bytes) -> None:
        # One write(2) in append mode is contiguous in the file; after a short one (a full volume)
        # the second call fails.
        while content:
            content = content[os.write(self._descriptor, content) :]


def log_readably(path: Path | None = None) -> None:
    """Send the log of this process to stderr, and to a file if `path` is given.

    Lines read `2017-12-04 09:30:00,000 INFO message`. Another call replaces the former handlers.
    The file and its predecessor, with `.1` at its name's end, are bounded to 10 MB together.
    StorageError if the file cannot be written.
    """
    # Imported here, because only a worker writes a file.
    from logging.handlers import RotatingFileHandler

    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(
                RotatingFileHandler(path, maxBytes=_READABLE_BYTES, backupCount=1, encoding="utf-8")
            )
        except OSError as error:
            raise output_error(f"cannot write {path}", error) from error
    logging.basicConfig(
        level=logging.INFO,
        format=LOG_FORMAT,
        handlers=handlers,
        force=True,
    )
