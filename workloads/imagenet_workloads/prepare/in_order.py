"""Calls a function for many items in threads, and yields the results in the order of the items.

`index` lists the archives of several classes at the same time, `pack` transcodes batches of images.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

# Calls in flight for each thread, so that none waits for the reader of the results.
_AHEAD = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Generator[Result]:
    """Yields the result for each item, in the items' order.

    Args:
        function: called in a thread.
        items: taken as far ahead as the threads need.
        threads: the number of calls at the same time, at least 1.

    Raises:
        Exception: what `function` raises for an item, in place of its result.
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="in-order")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= threads * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
