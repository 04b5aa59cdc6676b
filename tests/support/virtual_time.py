"""An event loop whose clock is virtual, and in which processes can be paused.

Whenever nothing is left to do, the clock jumps to the next timer, so a story that takes hours takes
as long as its work. Sockets must be local to this process and of the Unix domain: there, what one
end has written can be read at the other end at once, so that an idle loop is idle indeed.

A `Process` is a group of tasks: everything that is started within `Process.run`, with all timers,
connections and tasks that follow from it. A paused process does nothing, as after SIGSTOP: its
timers fire late and the others' answers wait in its sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar
from unittest import mock

import aiohttp.connector

T = TypeVar("T")
RESOLUTION = 1e-6
"""Of the clock, in seconds."""

ITERATIONS_A_POLL = 8
"""How often in a row callbacks that are ready may run before files are polled: a poll is dear."""

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """Tasks that can be paused together.

    Attributes:
        is_paused: Whether they do nothing now.
        resumed_at: When they last went on, by the loop's clock.
    """

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.is_paused = False
        self.resumed_at = float("-inf")
        self._loop = loop
        self._context = copy_context()
        self._context.run(_PROCESS.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process."""
        return self._loop.create_task(work, context=self._context.copy())

    def pause(self) -> None:
        """Do nothing until `resume`."""
        self.is_paused = True
        self._loop.paused.add(self)

    def resume(self) -> None:
        """Go on, with everything that has become due meanwhile."""
        self.is_paused = False
        self._loop.paused.discard(self)
        self.resumed_at = self._loop.time()
        self._loop.release()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop; its clock starts at 0.

    Attributes:
        paused: The processes that do nothing now.
    """

    def __init__(self) -> None:
        self.paused: set[Process] = set()
        self._virtual = _JumpingSelector(self.paused)
        super().__init__(self._virtual)
        # Timers within it count as due; it must not vanish beside the time of a long story.
        self._clock_resolution = RESOLUTION
        self._held: list[asyncio.Handle] = []
        # BaseEventLoop takes what is ready from here.
        self._ready: deque[asyncio.Handle] = _Ready(self._held.append, self.paused)

    def time(self) -> float:
        """Return the virtual seconds since the beginning."""
        return self._virtual.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call later than now, so that no loop that waits for almost nothing stops the clock."""
        earliest = self.time() + 2 * RESOLUTION
        return super().call_at(max(when, earliest), callback, *args, context=context)

    def release(self) -> None:
        """Run what was held back; what is still paused is held back again."""
        self._ready.extend(self._held)
        self._held.clear()


class _JumpingSelector(selectors.EpollSelector):
    """Never waits: if no file is ready, the time has passed."""

    def __init__(self, paused: set[Process]) -> None:
        super().__init__()
        self.now = 0.0
        self._paused = paused
        self._skipped = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 and self._skipped < ITERATIONS_A_POLL:
            self._skipped += 1
            return []
        self._skipped = 0
        ready = super().select(0)
        if self._paused:
            ready = [event for event in ready if not _is_held(event[0].data)]
        if not ready and timeout != 0:
            assert timeout is not None, "nothing will ever happen again"
            self.now += timeout
        return ready


class _Ready(deque[asyncio.Handle]):
    """What the loop runs next, without that of paused processes."""

    def __init__(self, hold: Callable[[asyncio.Handle], None], paused: set[Process]) -> None:
        super().__init__()
        self._hold = hold
        self._paused = paused

    def popleft(self) -> asyncio.Handle:
        handle = super().popleft()
        if self._paused and _is_paused(handle) and not handle.cancelled():
            self._hold(handle)
            return _NOTHING
        return handle


def _is_held(handles: tuple[asyncio.Handle | None, asyncio.Handle | None]) -> bool:
    return any(handle is not None and _is_paused(handle) for handle in handles)


def _is_paused(handle: asyncio.Handle) -> bool:
    context: Context = handle._context  # type: ignore[attr-defined]
    process = context.get(_PROCESS)
    return process is not None and process.is_paused


@contextlib.contextmanager
def _virtual_clocks(loop: VirtualTimeLoop) -> Iterator[None]:
    with (
        mock.patch.object(time, "monotonic", loop.time),
        mock.patch.object(aiohttp.connector, "monotonic", loop.time),
    ):
        yield


def run(work: Callable[[VirtualTimeLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a loop of its own; `time.monotonic` is the loop's clock meanwhile."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualTimeLoop)
        with _virtual_clocks(loop):
            return runner.run(work(loop))


_NOTHING = asyncio.Handle(lambda: None, (), asyncio.new_event_loop())
_NOTHING.cancel()
