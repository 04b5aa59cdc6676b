"""A process that is throttled, as by a quota of the processor; root is not needed."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_POLL_SECONDS = 0.005


def processor_seconds(process: int) -> float:
    """The processor time that a process has used, over all its threads."""
    # The number of another process's clock, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime((~process << 3) | 2)


@contextmanager
def throttled(process: int, cores: float) -> Iterator[None]:
    """Stop a process whenever it has used more than its share of a core; unused time is lost."""
    ended = threading.Event()

    def limit() -> None:
        before, paid_until = processor_seconds(process), time.monotonic()
        while not ended.wait(_POLL_SECONDS):
            with suppress(OSError):
                used = processor_seconds(process)
                paid_until = max(paid_until, time.monotonic() - _POLL_SECONDS)
                paid_until += (used - before) / cores
                before = used
                if (excess := paid_until - time.monotonic()) > 0:
                    os.kill(process, signal.SIGSTOP)
                    ended.wait(excess)
                    os.kill(process, signal.SIGCONT)

    thread = threading.Thread(target=limit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
