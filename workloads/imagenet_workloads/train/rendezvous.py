"""Waiting for others, never silently and never for ever.

MXNet waits without a word and without an end for a name that does not resolve yet, and for members
that never come. So servers and workers first wait here for the scheduler's port (the scheduler for
its own name), and `deadline` watches what MXNet then does. Nobody waits for a port that opens only
after its own wait: a scheduler's opens when MXNet starts, whoever is missing.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.roles import Member, Role

_log = logging.getLogger(__name__)

# Seconds between two attempts, and between two lines of the log.
RETRY_INTERVAL = 0.25
REPORT_INTERVAL = 15.0


def wait_for_scheduler(member: Member, timeout: float) -> None:
    """Return when this member may start MXNet.

    Args:
        member: who waits. A scheduler waits until its own name resolves, since it sends that name
            to everyone and connects to it itself; others until its port answers.
        timeout: seconds.

    Raises:
        WorkloadError: the time is over; says what was missing last.
    """
    if member.role is Role.SCHEDULER:
        attempt: Callable[[str, int], None] = _resolve
        wanted = f"its own name {member.host} to resolve"
    else:
        attempt = _connect
        wanted = f"the scheduler {member.host}:{member.port}"
    started = time.monotonic()
    reported = -REPORT_INTERVAL
    while True:
        try:
            attempt(member.host, member.port)
        except OSError as error:
            waited = time.monotonic() - started
            reason = _reason(error)
            if waited >= timeout:
                raise WorkloadError(
                    f"{member.role} gave up after {timeout:g} s of waiting for {wanted}: {reason}"
                ) from error
            if waited - reported >= REPORT_INTERVAL:
                reported = waited
                _log.info(
                    "%s waits for %s: %s (%.0f s of %g s)",
                    member.role,
                    wanted,
                    reason,
                    waited,
                    timeout,
                )
            time.sleep(RETRY_INTERVAL)
        else:
            return


def scheduler_is_gone(member: Member) -> bool:
    """Whether nobody listens where the scheduler does: then the whole attempt is being ended."""
    try:
        _connect(member.host, member.port)
    except OSError:
        return True
    return False


@contextmanager
def deadline(wanted: str, timeout: float, give_up: Callable[[str], None]) -> Iterator[None]:
    """Watch a block that may never end, because it waits in C++ for others.

    Args:
        wanted: for whom it waits, for the log.
        timeout: seconds.
        give_up: called with a message, in another thread, when the time is over; must end the
            process, since nothing can end the block.
    """
    done = threading.Event()

    def watch() -> None:
        started = time.monotonic()
        while not done.wait(min(REPORT_INTERVAL, timeout)):
            waited = time.monotonic() - started
            if waited >= timeout:
                give_up(f"gave up after {timeout:g} s of waiting for {wanted}")
                return
            _log.info("waits for %s (%.0f s of %g s)", wanted, waited, timeout)

    watcher = threading.Thread(target=watch, name="deadline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _resolve(host: str, port: int) -> None:
    socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _connect(host: str, port: int) -> None:
    with socket.create_connection((host, port), timeout=5):
        pass


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the name does not resolve"
    if isinstance(error, TimeoutError):
        return "no answer"
    return os.strerror(error.errno) if error.errno else str(error)
