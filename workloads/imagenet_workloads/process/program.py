"""Runs a program's body and turns how it ended into what a pod leaves behind.

The edge between the package, which raises `WorkloadError`, and the pod: one line on stderr, the
pod's termination message (which the operator reads from the container's status), an exit code.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Never

from imagenet_workloads.errors import StorageError, WorkloadError
from imagenet_workloads.process import missing_library

TERMINATED = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT

# The kubelet keeps this many bytes of a container's termination message.
TERMINATION_MESSAGE_BYTES = 4096


def run_program(
    name: str, body: Callable[[], int | None], variables: Mapping[str, str] = os.environ
) -> int:
    """Runs `body` and returns the exit code of the program called `name`.

    SIGTERM ends the body by SystemExit, so that `with` and `finally` blocks clean up (a process
    that is PID 1 would ignore it otherwise); a body with better plans sets its own handler.

    Args:
        name: the program's name, for messages, e.g. "imagenet-index".
        body: does the work; returns an exit code, or None for success.
        variables: the environment; only the place of the termination log is read from it.
    """
    explain = ""
    try:
        with _exit_on_sigterm():
            return body() or 0
    except WorkloadError as error:
        message, code = str(error), error.exit_code
    except KeyboardInterrupt:
        message, code = "interrupted", INTERRUPTED
    except Exception as error:
        missing = missing_library.explain(error)
        if missing is not None:
            message, code = str(missing), missing.exit_code
        else:
            message, code = f"unexpected {type(error).__name__}: {error}", 1
            explain = traceback.format_exc()
    # First: it is the one that the operator reads, and stderr may be on a full disk.
    leave_message(message, variables)
    say(f"{explain}{name}: error: {message}")
    return code


def say(message: str) -> None:
    """Prints a line on stderr, where that is possible: last words cannot change an end."""
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)
    flush_or_drop()


def flush_or_drop() -> None:
    """Empties the buffers of stdout and stderr; what cannot be written now never will be.

    The interpreter tries again at its end, and makes an exit code of 120 of another failure.
    """
    # None where the program was started with it closed.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            # Written to the null device instead, by that last try.
            with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def write_termination_message(message: str, variables: Mapping[str, str] = os.environ) -> None:
    """Leaves a program's result or last words where the operator reads them.

    Does nothing where IMAGENET_TERMINATION_LOG is not set: nobody would read it.

    Args:
        message: at most 4096 bytes of UTF-8; Kubernetes would cut off the rest.
        variables: the environment.

    Raises:
        StorageError: the file cannot be written.
        ValueError: the message is longer.
    """
    path = variables.get("IMAGENET_TERMINATION_LOG")
    if not path:
        return
    content = message.encode()
    if len(content) > TERMINATION_MESSAGE_BYTES:
        raise ValueError(
            f"a termination message of {len(content)} bytes would be cut off "
            f"after {TERMINATION_MESSAGE_BYTES}"
        )
    try:
        # Written in place: in a pod it is a bind mount, over which nothing can be renamed.
        Path(path).write_bytes(content)
    except OSError as error:
        raise StorageError(
            f"IMAGENET_TERMINATION_LOG: cannot write {path}: {error.strerror}"
        ) from error


def leave_message(message: str, variables: Mapping[str, str]) -> None:
    """Leaves the last words of a program whose end is decided; nothing about them can change it.

    Args:
        message: shortened to what Kubernetes keeps, between two characters.
        variables: the environment.
    """
    shortened = message.encode()[:TERMINATION_MESSAGE_BYTES].decode(errors="ignore")
    try:
        write_termination_message(shortened, variables)
    except StorageError as error:
        # The program already has an end of its own, which must stay the one that is seen.
        say(f"(and no termination message: {error})")


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _raise_system_exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)


def _raise_system_exit(number: int, frame: FrameType | None) -> Never:
    raise SystemExit(TERMINATED)
