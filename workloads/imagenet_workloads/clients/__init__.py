"""Clients of file servers (`http`) and of buckets with an S3 API (`s3`), with what both share.

Preparation reads sources by them, and training reads prepared datasets. `TRAFFIC` counts their
requests and the bytes of the answers, for metrics and for the estimate of index.
"""

import threading
from collections.abc import Callable


class Traffic:
    """A count of requests and bytes; may be used from several threads."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0
        self._lock = threading.Lock()
        self._report: Callable[[int, int], None] = lambda requests, bytes: None

    def add(self, requests: int, bytes: int) -> None:
        with self._lock:
            self.requests += requests
            self.bytes += bytes
        self._report(requests, bytes)

    def report_to(self, report: Callable[[int, int], None]) -> None:
        """Have a function called with each later addition."""
        self._report = report


TRAFFIC = Traffic()
"""The traffic of this process."""
