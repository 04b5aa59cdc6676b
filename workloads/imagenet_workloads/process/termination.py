"""SIGTERM in a worker: finish the batch, save a checkpoint and exit, or exit at once.

The main thread may be in MXNet's C++ for as long as a peer is lost, where Python's handlers do not
run. So another thread receives the signal through the wakeup descriptor, and ends the process if
the training loop does not end in time.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from imagenet_workloads.process.program import TERMINATED

_log = logging.getLogger(__name__)

# Seconds between two checks whether a checkpoint is still possible.
POLL_INTERVAL = 0.2


class Termination:
    """Handles SIGTERM and SIGINT, after `listen`.

    Attributes:
        requested: Whether one has arrived; the training loop checks it after each batch.
        is_hopeless: Returns whether no checkpoint is possible, because members that the batch needs
            are gone. Called repeatedly from another thread.
    """

    def __init__(self, grace: float, is_hopeless: Callable[[], bool] = lambda: False) -> None:
        """Set the behaviour after the signal.

        Args:
            grace: The seconds that a checkpoint may take.
            is_hopeless: The attribute.
        """
        self._grace, self.is_hopeless = grace, is_hopeless
        self._heard = threading.Event()
        self._saving = threading.Event()
        self._writing = threading.Event()
        self._left = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self._heard.is_set()

    def listen(self) -> None:
        """Install the handlers; only in the main thread."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        threading.Thread(
            target=self._hear, args=(reading,), name="termination", daemon=True
        ).start()

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer the end after a signal: the block has time for a checkpoint."""
        self._saving.set()
        try:
            yield
        finally:
            self._saving.clear()
            if self._heard.is_set():
                # At the end of the block, a checkpoint is saved, or an error is reported first.
                self._left.set()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """In the block no peer is needed, so it always has the whole grace period."""
        self._writing.set()
        try:
            yield
        finally:
            # After a signal during the write, the process exits after it, without peers.
            if not self._heard.is_set():
                self._writing.clear()

    def _hear(self, reading: int) -> None:
        while not {signal.SIGTERM, signal.SIGINT} & set(os.read(reading, 64)):
            pass
        self._heard.set()
        if self._saving.is_set():
            _log.info(
                "stopping after a signal: saving a checkpoint after this batch, within %g s",
                self._grace,
            )
            end = time.monotonic() + self._grace
            while not self._left.wait(POLL_INTERVAL):
                if time.monotonic() >= end:
                    _log.warning("no checkpoint within %g s: peers do not answer", self._grace)
                    break
                if not self._writing.is_set() and self.is_hopeless():
                    _log.warning("no checkpoint: the peers are gone")
                    break
            else:
                return
        os._exit(TERMINATED)
