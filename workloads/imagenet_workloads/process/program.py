"""Runs a program's body, and reports its end.

A `WorkloadError` becomes one line on stderr, the pod's termination message (which the operator
reads from the container's status), and an exit code.
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

from imagenet_spec.names import IMAGENET_TERMINATION_LOG
from imagenet_workloads.errors import StorageError, WorkloadError
from imagenet_workloads.process import missing_library

TERMINATED = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT

# The kubelet's limit for a termination message, in bytes.
TERMINATION_MESSAGE_BYTES = 4096


def run_program(
    name: str, body: Callable[[], int | None], variables: Mapping[str, str] = os.environ
) -> int:
    """Run `body`; return the exit code of the program.

    SIGTERM ends the body by SystemExit, so that `with` and `finally` blocks run (PID 1 would
    otherwise ignore it). A body may set its own handler.

    Args:
        name: The program's name in messages, such as "imagenet-index".
        body: Returns an exit code, or None for success.
        variables: The environment, with the path of the termination log.
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
    # First, because the operator reads it, and stderr may be on a full disk.
    leave_message(message, variables)
    say(f"{explain}{name}: error: {message}")
    return code


def say(message: str) -> None:
    """Print a line on stderr, if possible: a failure must not change the exit code."""
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)
    flush_or_drop()


def flush_or_drop() -> None:
    """Flush stdout and stderr; drop what cannot be written.

    Otherwise the interpreter flushes again at its exit, and exits with 120 if that fails.
    """
    # None if the program was started with it closed.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            # The interpreter's flush then writes to the null device.
            with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def write_termination_message(message: str, variables: Mapping[str, str] = os.environ) -> None:
    """Write a program's result or error as its termination message.

    Does nothing if IMAGENET_TERMINATION_LOG is not set.

    Args:
        message: Up to 4096 bytes of UTF-8; Kubernetes truncates the rest.
        variables: the environment.

    Raises:
        StorageError: The file cannot be written.
        ValueError: The message is longer.
    """
    path = variables.get(IMAGENET_TERMINATION_LOG)
    if not path:
        return
    content = message.encode()
    if len(content) > TERMINATION_MESSAGE_BYTES:
        raise ValueError(
            f"a termination message of {len(content)} bytes would be cut off "
            f"after {TERMINATION_MESSAGE_BYTES}"
        )
    try:
        # Written in place: in a pod it is a bind mount, which cannot be replaced by a rename.
        Path(path).write_bytes(content)
    except OSError as error:
        raise StorageError(
            f"IMAGENET_TERMINATION_LOG: cannot write {path}: {error.strerror}"
        ) from error


def leave_message(message: str, variables: Mapping[str, str]) -> None:
    """Write the error of a program that fails, without changing its exit code.

    Args:
        message: Truncated to Kubernetes' limit, between two characters.
        variables: the environment.
    """
    shortened = message.encode()[:TERMINATION_MESSAGE_BYTES].decode(errors="ignore")
    try:
        write_termination_message(shortened, variables)
    except StorageError as error:
        # The program's own error must stay visible.
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
