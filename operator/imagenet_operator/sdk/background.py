"""The event loop that all blocking clients of a process share, in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


@functools.cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the loop that all clients share; its thread ends with the interpreter."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="imagenetjob", daemon=True).start()
    return made


def _forget() -> None:
    """Give a fork a loop of its own: it has not the thread of its parent's."""
    if loop.cache_info().currsize:
        # It would say that connections are not closed, which are the parent's.
        loop().set_exception_handler(lambda *_: None)
    loop.cache_clear()


os.register_at_fork(after_in_child=_forget)


def is_here() -> bool:
    """Whether the caller runs on the shared loop, which must not wait for itself."""
    try:
        return asyncio.get_running_loop() is loop()
    except RuntimeError:
        return False


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a coroutine, which runs on the shared loop.

    If the caller is interrupted, the coroutine is cancelled, and has ended when this returns.
    """
    shared = loop()
    answer: concurrent.futures.Future[Answer] = concurrent.futures.Future()
    tasks: list[asyncio.Task[Answer]] = []

    def start() -> None:
        tasks.append(shared.create_task(work))
        tasks[0].add_done_callback(end)

    def end(task: asyncio.Task[Answer]) -> None:
        if task.cancelled():
            answer.cancel()
            answer.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    shared.call_soon_threadsafe(start)
    try:
        return answer.result()
    except BaseException:
        if not answer.done():
            shared.call_soon_threadsafe(lambda: tasks[0].cancel())
            concurrent.futures.wait([answer])
        raise
