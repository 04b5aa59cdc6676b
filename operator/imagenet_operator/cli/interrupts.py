"""Ctrl-C and its like, as a count that a loop can look at, instead of an exception anywhere."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the user's wishes to stop, while it is entered; in the main thread only.

    A signal that is ignored stays so: `nohup` wants it.

    Args:
        wake: Called in the signal handler, to end a wait.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._former: dict[signal.Signals, Any] = {}
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def __enter__(self) -> Self:
        self._former = {
            number: signal.signal(number, self._note)
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.count += 1
        self._wake()
