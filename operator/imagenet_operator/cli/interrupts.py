"""Ctrl-C and its like: a count that a loop can look at, and elsewhere one exception for all."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

_OTHERS = (signal.SIGTERM, signal.SIGHUP)
_SIGNALS = (signal.SIGINT, *_OTHERS)


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt too, which ends programs that are waited for.

    In the main thread only. A signal that is ignored stays so.
    """
    former = _taken(_OTHERS, _raise)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def _taken(
    numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> dict[signal.Signals, Any]:
    """Handle signals, but for those that are ignored; return the former handlers."""
    return {
        number: signal.signal(number, handler)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }


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
        self._former = _taken(_SIGNALS, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.count += 1
        self._wake()
