"""Keeps the row groups of Parquet files that were read last, for their other images."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# The bytes that are kept, beyond the row group that is in use.
MOST_BYTES = 512 << 20

Key = tuple[str, int]


class RowGroups:
    """The image columns of a few row groups; may be used from several threads."""

    def __init__(self, most: int) -> None:
        """Keeps nothing yet.

        Args:
            most: the row groups that are kept, at least 1.
        """
        self._most = most
        self._kept: OrderedDict[Key, Future[pa.ChunkedArray]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key, read: Callable[[], "pa.ChunkedArray"]) -> "pa.ChunkedArray":
        """Returns a row group, which one thread reads while others wait for it.

        Args:
            key: its file and number.
            read: reads it.
        """
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                mine = self._kept[key] = Future()
            self._kept.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            mine.set_result(read())
        except BaseException as error:
            with self._lock:
                self._kept.pop(key, None)
            mine.set_exception(error)
            raise
        with self._lock:
            self._drop()
        return mine.result()

    def _drop(self) -> None:
        """Drops the oldest row groups, but never the newest."""
        sizes = {key: one.result().nbytes for key, one in self._kept.items() if one.done()}
        while len(sizes) > 1 and (len(sizes) > self._most or sum(sizes.values()) > MOST_BYTES):
            oldest = next(iter(sizes))
            del sizes[oldest], self._kept[oldest]
