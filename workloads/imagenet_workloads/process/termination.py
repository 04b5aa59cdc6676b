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

_SHORTER_STEPS = "choose a smaller batch size, or a longer --termination-grace"


class Termination:
    """Handles SIGTERM and SIGINT, after `listen`.

    Attributes:
        has_peers: whether a step needs other processes.
        is_hopeless: returns whether no checkpoint is possible, because members that the batch needs
            are gone. Called repeatedly from another thread.
        is_writing: returns whether a checkpoint is being written that needs no peer, so that it has
            the whole grace period. Called likewise.
    """

    def __init__(self, grace: float, is_hopeless: Callable[[], bool] = lambda: False) -> None:
        """A checkpoint may take `grace` seconds after the signal."""
        self._grace, self.is_hopeless = grace, is_hopeless
        self.is_writing: Callable[[], bool] = lambda: False
        self._heard = threading.Event()
        self._saving = threading.Event()
        self._left = threading.Event()
        self.has_peers = True
        self._step_began: float | None = None
        self._longest_step = 0.0
        self._steps = 0

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived; the training loop checks it after each batch."""
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

    def begin_step(self) -> None:
        self._step_began = time.monotonic()

    def end_step(self) -> None:
        """Note that the training step has ended; warn once if steps leave no time to save."""
        assert self._step_began is not None
        seconds = time.monotonic() - self._step_began
        self._longest_step = max(self._longest_step, seconds)
        self._step_began = None
        self._steps += 1
        # The first step may compile.
        if self._steps == 2 and seconds > self._grace:
            _log.warning(
                "a step takes %.0f s, longer than the grace period of %g s, so a signal ends the "
                "training without a checkpoint; %s",
                seconds,
                self._grace,
                _SHORTER_STEPS,
            )

    def why_too_late(self) -> str:
        """Return why no checkpoint was saved within the grace period, as far as it was measured."""
        if self._step_began is None:
            return "it was not written in time"
        lasts = time.monotonic() - self._step_began
        if not self.has_peers:
            return f"the step has lasted {lasts:.0f} s so far; {_SHORTER_STEPS}"
        if self._longest_step > self._grace:
            return f"a step takes up to {self._longest_step:.0f} s; {_SHORTER_STEPS}"
        if self._longest_step == 0.0:
            return f"the first step has not ended after {lasts:.0f} s"
        return "peers do not answer"

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
                    _log.warning("no checkpoint within %g s: %s", self._grace, self.why_too_late())
                    break
                if not self.is_writing() and self.is_hopeless():
                    _log.warning("no checkpoint: the peers are gone")
                    break
            else:
                return
        os._exit(TERMINATED)
