"""Coroutines in tests: tests that are coroutines, with a time limit, and waits without sleeps."""

import asyncio
import atexit
import functools
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import Any, ParamSpec, TypeVar

from support.processes import DEADLINE_SECONDS

Arguments = ParamSpec("Arguments")
T = TypeVar("T")


def asynchronous(
    story: Callable[Arguments, Coroutine[Any, Any, None]],
) -> Callable[Arguments, None]:
    """Make a test of a coroutine function."""

    @functools.wraps(story)
    def test(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        asyncio.run(asyncio.wait_for(story(*arguments, **named), DEADLINE_SECONDS))

    return test


async def until(condition: Callable[[], object], pause: float = 0) -> None:
    """Let the other tasks of this event loop go on until a condition holds.

    Args:
        condition: Returns whether it holds, or an awaitable of that.
        pause: Seconds between two questions, for what other processes or clocks decide.
    """
    while not await _answer(condition()):
        await asyncio.sleep(pause)


async def _answer(found: object) -> object:
    return await found if isawaitable(found) else found


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing outside; for tests that are no coroutines."""
    return _loop().run_until_complete(work)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop
