"""What a worker does about SIGTERM: finish the batch, save, leave; or leave at once.

The main thread may sit in MXNet's C++ for as long as a lost peer takes, where Python's handlers do
not run. So a thread of its own hears the signal through the wakeup descriptor, and ends the process
if the training loop has not left in time.
"""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from imagenet_workloads.commands.program import TERMINATED

_log = logging.getLogger(__name__)


class Termination:
    """Hears SIGTERM and SIGINT from `listen` on.

    Attributes:
        requested: whether one has come; the training loop looks at it after each batch.
    """

    def __init__(self, grace: float) -> None:
        """Set the seconds that a checkpoint may take after the signal."""
        self._grace = grace
        self._heard = threading.Event()
        self._saving = threading.Event()
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

    def _hear(self, reading: int) -> None:
        while not {signal.SIGTERM, signal.SIGINT} & set(os.read(reading, 64)):
            pass
        self._heard.set()
        if self._saving.is_set():
            _log.info(
                "told to end: a checkpoint follows after this batch, if it takes less than %g s",
                self._grace,
            )
            if self._left.wait(self._grace):
                return
            _log.warning("no checkpoint within %g s: the others do not answer", self._grace)
        os._exit(TERMINATED)
