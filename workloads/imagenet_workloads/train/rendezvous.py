"""Waiting for others, never silently and never for ever.

MXNet waits without a word and without an end for a name that does not resolve yet, and for members
that never come. So servers and workers first wait here for the scheduler's port (the scheduler for
its own name), and `watch` looks at what MXNet then does. Nobody waits for a port that opens only
after its own wait: a scheduler's opens when MXNet starts, whoever is missing.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from imagenet_workloads.commands.program import leave_message, say
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.roles import Member, Role

_log = logging.getLogger(__name__)

# Seconds between two attempts, and between two lines of the log.
RETRY_INTERVAL = 0.25
REPORT_INTERVAL = 15.0
# A name that does not resolve is asked for less often: in a large job that is many queries, each
# of which goes through all search domains, and a name server may remember its no for some seconds.
RESOLVE_INTERVAL = 1.0
# Seconds between two looks at who has joined.
LOOK_INTERVAL = 1.0
# Seconds in which another's kernel answers, however busy its program is: enough for a first packet
# that is lost and, after 1 s, sent again.
ANSWER_TIMEOUT = 1.5


def wait_for_scheduler(member: Member, timeout: float) -> str:
    """Return when this member may start MXNet.

    ps-lite resolves the name once more for itself, again and again where that fails.

    Args:
        member: who waits. A scheduler waits until its own name resolves, since it sends that name
            to everyone and connects to it itself; others until its port answers.
        timeout: seconds.

    Returns:
        the scheduler's IP address.

    Raises:
        WorkloadError: the time is over; says what was missing last.
    """
    if member.role is Role.SCHEDULER:
        wanted = f"its own name {member.host} to resolve"
        return _keep_trying(
            lambda: _resolve(member.host, member.port), member.role, wanted, timeout
        )
    return wait_for_port(member.role, "the scheduler", member.host, member.port, timeout)


def wait_for_port(who: str, whom: str, host: str, port: int, timeout: float) -> str:
    """Return the IP address of a host when its port answers.

    Args:
        who: waits, for the log.
        whom: it waits for.
        host: a name or an address.
        port: which.
        timeout: seconds.

    Raises:
        WorkloadError: the time is over; says what was missing last.
    """
    return _keep_trying(lambda: _connect(host, port), who, f"{whom} {host}:{port}", timeout)


def scheduler_is_gone(address: str, port: int) -> bool:
    """Whether nobody listens where the scheduler does: then the whole attempt is being ended.

    Asked by address, since a name that does not resolve for a moment says nothing. That nobody
    answers is an answer: none refuses a connection to the address of a pod that is gone, and to
    wait for that would be most of the time in which an attempt ends.
    """
    try:
        _connect(address, port, ANSWER_TIMEOUT)
    except OSError:
        return True
    return False


def watch(
    missing: Callable[[], str | None],
    timeout: float,
    give_up: Callable[[str], None],
    over: threading.Event,
) -> None:
    """Look at a wait in C++ that nothing else can see or end, from a thread of its own.

    Args:
        missing: says for whom it waits; None when for nobody any more, which ends the watch.
        timeout: seconds.
        give_up: called with a message when the time is over; must end the process.
        over: ends the watch too.
    """
    started = time.monotonic()
    reported = 0.0
    while not over.wait(min(LOOK_INTERVAL, timeout)):
        wanted = missing()
        if wanted is None:
            return
        waited = time.monotonic() - started
        if waited >= timeout:
            give_up(f"gave up after {timeout:g} s of waiting for {wanted}")
            return
        if waited - reported >= REPORT_INTERVAL:
            reported = waited
            _log.info("waits for %s (%.0f s of %g s)", wanted, waited, timeout)


@contextmanager
def deadline(wanted: str, timeout: float, give_up: Callable[[str], None]) -> Iterator[None]:
    """Watch a block that may never end, because it waits in C++ for others; see `watch`."""
    over = threading.Event()
    watcher = threading.Thread(
        target=watch, args=(lambda: wanted, timeout, give_up, over), name="deadline", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def give_up(message: str) -> NoReturn:
    """End the process from a thread, while the main one is stuck in MXNet."""
    try:
        leave_message(message, os.environ)
        say(f"imagenet-train: error: {message}")
    finally:
        os._exit(WorkloadError.exit_code)


def _keep_trying(attempt: Callable[[], str], who: str, wanted: str, timeout: float) -> str:
    started = time.monotonic()
    reported = -REPORT_INTERVAL
    while True:
        try:
            return attempt()
        except OSError as error:
            waited, reason = time.monotonic() - started, _reason(error)
            if waited >= timeout:
                raise WorkloadError(
                    f"{who} gave up after {timeout:g} s of waiting for {wanted}: {reason}"
                ) from error
            if waited - reported >= REPORT_INTERVAL:
                reported = waited
                passed = f"{waited:.0f} s of {timeout:g} s"
                _log.info("%s waits for %s: %s (%s)", who, wanted, reason, passed)
            unknown = isinstance(error, socket.gaierror)
            time.sleep(RESOLVE_INTERVAL if unknown else RETRY_INTERVAL)


def _resolve(host: str, port: int) -> str:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def _connect(host: str, port: int, timeout: float = 5.0) -> str:
    with socket.create_connection((host, port), timeout) as connection:
        return str(connection.getpeername()[0])


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the name does not resolve"
    if isinstance(error, TimeoutError):
        return "no answer"
    return os.strerror(error.errno) if error.errno else str(error)
