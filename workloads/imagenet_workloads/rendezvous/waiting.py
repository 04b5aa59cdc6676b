"""Waits for peers, with log lines and a timeout.

MXNet waits without a log line and without a timeout for a name that does not resolve, and for
members that never join. So members first wait here for a port, and `watch` observes the framework's
own wait. No member waits for a port that opens only after its own wait.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.program import leave_message, say

_log = logging.getLogger(__name__)

# Seconds between two attempts, and between two lines of the log.
RETRY_INTERVAL = 0.25
REPORT_INTERVAL = 15.0
# A pod's name resolves shortly after the pod runs, so at first it is asked for often. Later a large
# job would make too many DNS queries, each through all search domains, and a DNS server may cache a
# negative answer for some seconds.
FIRST_RESOLVE_INTERVAL = 0.1
RESOLVE_INTERVAL = 1.0
RESOLVE_GROWTH = 1.5
# Seconds between two checks of the connected members.
POLL_INTERVAL = 1.0
# Seconds in which the kernel of a peer answers, even if its program is busy: enough for a packet
# that is lost and sent again after 1 s.
ANSWER_TIMEOUT = 1.5
RESOLVER = Path("/etc/resolv.conf")


def wait_for_port(who: str, whom: str, host: str, port: int, timeout: float) -> str:
    """Return the IP address of a host when its port answers.

    WorkloadError if the time is over; says what was missing last.
    """
    return keep_trying(lambda: connect(host, port), who, f"{whom} {host}:{port}", timeout)


def watch(
    missing: Callable[[], str | None],
    timeout: float,
    give_up: Callable[[str], None],
    over: threading.Event,
) -> None:
    """Watch a wait in C++ from another thread, because nothing else can log or end it.

    It ends when nothing is `missing`, or with the event `over`. After the timeout, `give_up` must
    end the process.
    """
    started = time.monotonic()
    reported = 0.0
    while not over.wait(min(POLL_INTERVAL, timeout)):
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
    """Watch a block that may wait forever in C++; see `watch`."""
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
    """End the process from a thread, while the main thread is in MXNet."""
    try:
        leave_message(message, os.environ)
        say(f"imagenet-train: error: {message}")
    finally:
        os._exit(WorkloadError.exit_code)


def keep_trying(attempt: Callable[[], str], who: str, wanted: str, timeout: float) -> str:
    """Repeat an attempt until it raises no OSError, and return its IP address.

    WorkloadError if the time is over; says what was missing last.
    """
    started = time.monotonic()
    reported = -REPORT_INTERVAL
    resolve_interval = FIRST_RESOLVE_INTERVAL
    while True:
        try:
            return attempt()
        except OSError as error:
            waited = time.monotonic() - started
            reason = os.strerror(error.errno) if error.errno else str(error)
            if isinstance(error, socket.gaierror):
                reason = "the name does not resolve"
            elif isinstance(error, TimeoutError):
                reason = "no answer"
            if waited >= timeout:
                raise WorkloadError(
                    f"{who} gave up after {timeout:g} s of waiting for {wanted}: {reason}"
                ) from error
            if waited - reported >= REPORT_INTERVAL:
                reported = waited
                passed = f"{waited:.0f} s of {timeout:g} s"
                _log.info("%s waits for %s: %s (%s)", who, wanted, reason, passed)
            if isinstance(error, socket.gaierror):
                time.sleep(resolve_interval)
                resolve_interval = min(resolve_interval * RESOLVE_GROWTH, RESOLVE_INTERVAL)
            else:
                time.sleep(RETRY_INTERVAL)


def resolve(host: str, port: int) -> str:
    """Return the first IP address of a name; OSError if it does not resolve."""
    names = _names(host)
    for name in names:
        with suppress(socket.gaierror):
            return str(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4][0])
    raise socket.gaierror(socket.EAI_NONAME, f"none of {', '.join(names)} resolves")


def _names(host: str) -> list[str]:
    """The names to ask for.

    A pod's resolver asks for a peer's name in each search domain, and then for the name as it is.
    The last question leaves the cluster. Where nobody answers it, each early look at a peer that is
    not there yet would take seconds. So the search domains are asked for alone. A name without a
    dot is the pod's own or localhost.
    """
    if "KUBERNETES_SERVICE_HOST" not in os.environ or "." not in host or is_address(host):
        return [host]
    lines = [line.split() for line in RESOLVER.read_text().splitlines()]
    domains = [domain for words in lines if words[:1] == ["search"] for domain in words[1:]]
    return [f"{host}.{domain}." for domain in domains] or [host]


def is_address(host: str, kind: Callable[[str], object] = ip_address) -> bool:
    """Return whether a host is an IP address, of one kind if it is given."""
    try:
        kind(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host is an address that only this machine reaches."""
    return is_address(host) and ip_address(host).is_loopback


def connect(host: str, port: int, timeout: float = 5.0) -> str:
    """Connect once, within `timeout` seconds; return the IP address that answered."""
    address = resolve(host, port)
    with socket.create_connection((address, port), timeout):
        return address


def is_gone(address: str, port: int) -> bool:
    """Whether a peer no longer listens, so that the attempt ends.

    It is asked by address, because a name may temporarily not resolve. A timeout counts as gone,
    because nothing rejects a connection to the address of a deleted pod.
    """
    try:
        connect(address, port, ANSWER_TIMEOUT)
    except OSError:
        return True
    return False
