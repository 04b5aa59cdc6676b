"""What a worker does about SIGTERM: finish the batch, save, leave; or leave at once.

The main thread may sit in MXNet's C++ for as long as a lost peer takes, where Python's handlers do
not run. So a thread of its own hears the signal through the wakeup descriptor, and ends the process
if the training loop has not left in time.
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

# Seconds between two looks at whether there is any hope for a checkpoint.
POLL_INTERVAL = 0.2


class Termination:
    """Hears SIGTERM and SIGINT from `listen` on.

    Attributes:
        requested: whether one has come; the training loop looks at it after each batch.
        is_hopeless: whether there can be no checkpoint, because those who are needed for the batch
            in progress are gone; asked again and again, from a thread of its own.
    """

    def __init__(self, grace: float, is_hopeless: Callable[[], bool] = lambda: False) -> None:
        """Set what happens after the signal.

        Args:
            grace: seconds that a checkpoint may take.
            is_hopeless: the attribute.
        """
        self._grace, self.is_hopeless = grace, is_hopeless
        self._heard = threading.Event()
        self._saving = threading.Event()
        self._writing = threading.Event()
        self._left = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether the process has been told to end."""
        return self._heard.is_set()

    def listen(self) -> None:
        """Begin to hear; only from the main thread."""
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
        """Within the block a signal leaves time to save; outside it ends the process at once."""
        self._saving.set()
        try:
            yield
        finally:
            self._saving.clear()
            if self._heard.is_set():
                # Whoever comes out of the block has saved, or has an error to report first.
                self._left.set()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within the block nobody else is needed, so it has the whole grace in any case."""
        self._writing.set()
        try:
            yield
        finally:
            # Whoever was told to end while writing leaves after it, and needs nobody for that.
            if not self._heard.is_set():
                self._writing.clear()

    def _hear(self, reading: int) -> None:
        while not {signal.SIGTERM, signal.SIGINT} & set(os.read(reading, 64)):
            pass
        self._heard.set()
        if self._saving.is_set():
            _log.info(
                "told to end: a checkpoint follows after this batch, if it takes less than %g s",
                self._grace,
            )
            end = time.monotonic() + self._grace
            while not self._left.wait(POLL_INTERVAL):
                if time.monotonic() >= end:
                    _log.warning("no checkpoint within %g s: others do not answer", self._grace)
                    break
                if not self._writing.is_set() and self.is_hopeless():
                    _log.warning("no checkpoint: the others are gone already")
                    break
            else:
                return
        os._exit(TERMINATED)
