"""SIGINT, SIGTERM and SIGHUP: a counter for loops, and one exception elsewhere."""

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
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt too.

    Only in the main thread. An ignored signal stays ignored.
    """
    former = _taken(_OTHERS, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _taken(
    numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> dict[signal.Signals, Any]:
    """Set the handler of signals that are not ignored; return the former handlers."""
    return {
        number: signal.signal(number, handler)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }


class Interrupts:
    """Counts signals to stop, and calls `wake` to end a wait; only for the main thread.

    An ignored signal stays ignored, as `nohup` requires.
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
