"""Tests that are coroutines: each in an event loop of its own, and never for ever."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

Arguments = ParamSpec("Arguments")

LIMIT_SECONDS = 120.0


def asynchronous(
    story: Callable[Arguments, Coroutine[Any, Any, None]],
) -> Callable[Arguments, None]:
    """Make a test of a coroutine function."""

    @functools.wraps(story)
    def test(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        asyncio.run(asyncio.wait_for(story(*arguments, **named), LIMIT_SECONDS))

    return test
