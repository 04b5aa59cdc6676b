"""Runs a program's body, and reports its end.

A `WorkloadError` becomes one line on stderr, the pod's termination message (which the operator
reads from the container's status), and an exit code.
"""

import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Never

from imagenet_spec.names import IMAGENET_TERMINATION_LOG
from imagenet_workloads.errors import InputError, StorageError, WorkloadError

# The Debian package of each system library that a wheel needs.
DEBIAN_PACKAGES = {
    "libgomp.so.1": "libgomp1",
    "libquadmath.so.0": "libquadmath0",
    "libturbojpeg.so.0": "libturbojpeg0",
}
# Libraries that a GPU node mounts into its containers: another node may have them.
_FROM_THE_NODE = ("libcuda.", "libnvidia-")
# The dynamic loader's message, in an ImportError or, from ctypes, in an OSError.
_NOT_FOUND = re.compile(r"(\S+\.so\S*): cannot open shared object file")
_OWN_PACKAGE = __package__.partition(".")[0]
_HOROVOD = "it is compiled, for Python 3.11: make install-horovod or make install-tensorflow"


def explain_missing_library(error: Exception) -> WorkloadError | None:
    """Return the error to report instead of the failed import of a library; None for other errors.

    Another attempt would fail in the same way, so the new error is permanent and causes no restart.
    The import of a module of this package is another error.
    """
    if isinstance(error, OSError | ImportError) and (found := _NOT_FOUND.search(str(error))):
        library = found[1]
        if library.startswith(_FROM_THE_NODE):
            return WorkloadError(f"{library} is missing: this node has no GPU driver")
        package = DEBIAN_PACKAGES.get(library)
        command = f"type: apt-get install {package}" if package else "install its package"
        return InputError(f"{library} is missing; {command}")
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        is_a_part = error.name != package and package != _OWN_PACKAGE
        if is_a_part and find_spec(package) is not None:
            return InputError(
                f"the Python package {package} in {sys.prefix} has no {error.name}; install a "
                "version that this project names in its requirements"
            )
        if package != _OWN_PACKAGE:
            how = f"; {how}" if (how := _how_to_install(package)) else ""
            return InputError(f"the Python package {package} is not installed in {sys.prefix}{how}")
    return None


def _how_to_install(package: str) -> str:
    # Imported here, because no program that succeeds needs them.
    from imagenet_spec.frameworks import FRAMEWORKS
    from imagenet_spec.frameworks.installation import pip_command

    if package == "horovod":
        return _HOROVOD
    for name, framework in FRAMEWORKS.items():
        if framework.module == package:
            needed = framework.needs_python
            return f"{f'it needs Python {needed}: ' if needed else 'type: '}{pip_command(name)}"
    return ""


TERMINATED = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT

# The kubelet's limit for a termination message, in bytes.
TERMINATION_MESSAGE_BYTES = 4096


def run_program(
    name: str, body: Callable[[], int | None], variables: Mapping[str, str] = os.environ
) -> int:
    """Run `body`; return the exit code of the program, which is `name` in messages.

    SIGTERM ends the body by SystemExit, so that `with` and `finally` blocks run (PID 1 would
    otherwise ignore it). A body may set its own handler. None is success.
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
        missing = explain_missing_library(error)
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


def leave_result(result: Mapping[str, object], optional: str = "") -> None:
    """Print a program's result, one JSON object, and write it as the termination message.

    The `optional` field is left out if the message would be too long with it. StorageError if the
    file cannot be written, ValueError if the message is too long.
    """
    text = json.dumps(result)
    if len(text) > TERMINATION_MESSAGE_BYTES:
        text = json.dumps({name: value for name, value in result.items() if name != optional})
    print(text, flush=True)
    write_termination_message(text)


def write_termination_message(message: str, variables: Mapping[str, str] = os.environ) -> None:
    """Write a program's result or error as its termination message, if a file is named for it.

    StorageError if the file cannot be written, ValueError if the message has more than the 4096
    bytes that Kubernetes keeps.
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

    It is cut to Kubernetes' limit, between two characters.
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
