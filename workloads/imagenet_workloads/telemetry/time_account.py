"""Where the time of a worker goes: seconds by phase, which add up to its wall time.

`training` keeps the account and exports it. A step counts when it is complete, so a hang in a step
is never counted as training.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from imagenet_spec.metrics import TimePhase


class TimeAccount:
    """Seconds of one process by phase. Safe to use from several threads.

    The process is in one phase at a time. Before the first `enter` it is starting.
    """

    def __init__(self, age: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin the account.

        Args:
            age: seconds for which the process has run already; they count as starting.
            clock: gives seconds.
        """
        self._clock, self._lock = clock, threading.Lock()
        self._phase, self._since = TimePhase.STARTING, clock() - age
        self._seconds = dict.fromkeys(TimePhase, 0.0)

    def enter(self, phase: TimePhase) -> None:
        """End the present phase and begin another."""
        with self._lock:
            self._spend(self._phase, self._clock())
            self._phase = phase

    def step(self, waited: float, redone: bool) -> None:
        """Divide the time since the phase began, or since the former step, at the end of a step.

        Args:
            waited: seconds of the step that were spent waiting for its data.
            redone: whether an earlier attempt had trained it; then all of it is lost time.
        """
        with self._lock:
            now = self._clock()
            self._phase = TimePhase.REDONE if redone else TimePhase.STEPPING
            if not redone:
                self._spend(TimePhase.DATA, min(now, self._since + waited))
            self._spend(self._phase, now)

    def seconds(self) -> dict[TimePhase, float]:
        """Return the seconds by phase until now, without a step in progress."""
        with self._lock:
            found = dict(self._seconds)
            if self._phase not in (TimePhase.STEPPING, TimePhase.REDONE):
                found[self._phase] += self._clock() - self._since
            return found

    def _spend(self, phase: TimePhase, until: float) -> None:
        self._seconds[phase] += until - self._since
        self._since = until


def process_age() -> float:
    """Return for how many seconds this process exists; 0 if the system does not say."""
    try:
        # The name of the program, in parentheses, may hold spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
