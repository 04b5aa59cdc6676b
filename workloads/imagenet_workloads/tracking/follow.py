"""Follows the logs of all attempts of a job until its end, and sends what they say."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from imagenet_spec import volume_files
from imagenet_spec.events import Event, attempt_folders, from_line
from imagenet_spec.names import EVENTS_FILE
from imagenet_spec.program.programs import TrackOptions
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.side_process import FLUSH_SECONDS
from imagenet_workloads.tracking import mlflow
from imagenet_workloads.tracking.history import History, to_send
from imagenet_workloads.tracking.tensorboard import EventFiles

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Tail:
    """The events that were added since the last look.

    An attempt's log is read until a later attempt has one. So events come in their order, even if
    the pod of an earlier attempt has not noticed that it is replaced.
    """

    def __init__(self, results: Path) -> None:
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


class _Board:
    """TensorBoard's files, and how far they have come in the logs."""

    def __init__(self, results: Path) -> None:
        self._tail, self._history = Tail(results), History()
        self._files = EventFiles(results)

    def write(self) -> None:
        for moment, event in self._tail.read():
            points = self._history.add(moment, event)
            self._files.add(moment, event, points, self._history)


class Follower:
    """The logs of a job, and those who get what they say."""

    def __init__(
        self,
        results: Path,
        options: TrackOptions,
        job: mlflow.Job,
        variables: Mapping[str, str],
    ) -> None:
        """Read and send nothing yet. The variables have the folder of the Secret."""
        self._results, self._options = results, options
        self._job, self._variables = job, variables
        self._run: mlflow.Run | None = None
        self._server: mlflow.Server | None = None
        self._tail, self.history = Tail(results), History()
        self._board = _Board(results) if options.tensorboard else None

    def read(self) -> None:
        """Take in what the logs have; after an OSError it begins again with the next call."""
        try:
            for moment, event in self._tail.read():
                self.history.add(moment, event)
        except OSError:
            self._tail, self.history = Tail(self._results), History()
            raise

    def write(self) -> None:
        """Write what the logs have to TensorBoard's files, if the job has them.

        After an OSError it begins again with the next call, which skips what is written.
        """
        if self._board is None:
            return
        try:
            self._board.write()
        except OSError:
            self._board = _Board(self._results)
            raise

    def send(self) -> int:
        """Send to MLflow what is covered; return the number of points.

        The Secret is read again after each failure, because it may have been mended. WorkloadError
        if the server cannot be reached, or refuses, or the Secret is wrong.
        """
        experiment = self._options.mlflow_experiment
        if experiment is None or self.history.started is None:
            return 0
        try:
            if self._run is None:
                credentials = mlflow.credentials_of(self._variables)
                self._server = mlflow.Server(credentials, self._options.mlflow_uri_key)
                self._run = mlflow.Run(self._server, experiment, self._job, self.history)
            points = len(to_send(self.history, self._run.acknowledged))
            self._run.send(self.history)
            return points
        except Exception as error:
            if self._server is not None:
                self._server.close()
            self._run = self._server = None
            if isinstance(error, (KeyError, TypeError, ValueError, AttributeError)):
                raise mlflow.TrackingError("the server's answer is not MLflow's") from None
            raise

    def follow(self, ending: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        """Read and send until `ending` is set, and then until all is sent, for a limited time."""
        deadline: float | None = None
        pause, retry_at, trouble = _FIRST_PAUSE, 0.0, ""
        write_at, is_unwritable = 0.0, False
        while True:
            now = clock()
            if deadline is None and ending.is_set():
                deadline, pause, retry_at, write_at = now + FLUSH_SECONDS, _FIRST_PAUSE, 0.0, 0.0
            if now >= write_at:
                # Files that cannot be written hold nothing up, and MLflow gets its points.
                try:
                    self.write()
                    is_unwritable = False
                except OSError as error:
                    write_at = now + _LONGEST_PAUSE
                    if not is_unwritable:
                        where = error.filename or self._results
                        _log.warning("TensorBoard's files wait: %s: %s", where, error.strerror)
                    is_unwritable = True
            problem, is_sent = "", False
            try:
                self.read()
                if now >= retry_at:
                    self.send()
                    is_sent, pause, retry_at = True, _FIRST_PAUSE, 0.0
            except OSError as error:
                problem = f"{error.filename or self._results}: {error.strerror}"
            except WorkloadError as error:
                problem = f"MLflow: {error}"
                retry_at = clock() + pause * random.uniform(0.5, 1.0)
                pause = min(2 * pause, _LONGEST_PAUSE if deadline is None else _FIRST_PAUSE)
            if problem and problem != trouble:
                _log.warning("tracking waits: %s", problem)
            elif trouble and is_sent:
                _log.info("tracking goes on")
            trouble = problem or ("" if is_sent else trouble)
            if deadline is None:
                ending.wait(POLL_SECONDS)
            elif is_sent or clock() >= deadline:
                return
            else:
                time.sleep(POLL_SECONDS)
