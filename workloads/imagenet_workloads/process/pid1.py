"""PID 1 of a pod: forks the process that works, forwards signals and reaps.

A scheduler or server stays in C++, where Python's signal handlers never run. PID 1 ignores signals
without a handler, so SIGTERM would have no effect until the grace period is over. So a child does
the work, for which SIGTERM has its default effect. This process never imports MXNet. It forwards
signals, reaps processes, keeps the last lines of a failed child, and exits as it did. Beside rank 0
it also starts the process that tracks the training (`side_process`).
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, Self

from imagenet_spec.names import ATTEMPTS_FOLDER, IMAGENET_ATTEMPT, IMAGENET_RESULTS, POD_NAME
from imagenet_workloads.process.parent_death_signal import follow
from imagenet_workloads.process.program import INTERRUPTED, TERMINATED, flush_or_drop
from imagenet_workloads.process.side_process import SideProcess

# The signals to forward; other signals have their default effect on both.
FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# si_code of a signal from the kernel, such as Ctrl-C, which the child receives too.
_SI_KERNEL = 0x80

LAST_LINES_FOLDER = "last-lines"
LAST_LINES = 20
LAST_BYTES = 2048

# Seconds to wait for a process that outlives the child and holds the pipe, and for the volume.
_PIPE_TIMEOUT = 1.0
_VOLUME_TIMEOUT = 5.0
_STANDARD_ERROR = 2


class LastLines:
    """Passes the standard error of a child on to that of its parent, and keeps its end.

    If the child fails, the last lines get a file in the folder of its attempt:

        OUTPUT/attempts/r0/last-lines/digits-r0-worker-1.txt

    So they outlive the pod, whose logs the cluster deletes with it. Without an output volume
    nothing is kept.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._end = file, b""
        self._reading, self._writing = os.pipe()

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Self | None:
        """Return those of a pod; None if it has no output volume or no attempt."""
        names = (IMAGENET_RESULTS, IMAGENET_ATTEMPT, POD_NAME)
        results, attempt, pod = (variables.get(name) for name in names)
        if not (results and attempt and pod):
            return None
        return cls(
            Path(results) / ATTEMPTS_FOLDER / f"r{attempt}" / LAST_LINES_FOLDER / f"{pod}.txt"
        )

    def divert(self) -> None:
        """In the child: send the standard error to the parent."""
        os.dup2(self._writing, _STANDARD_ERROR)
        os.close(self._writing)
        os.close(self._reading)

    def begin(self) -> None:
        """In the parent, after the fork: begin to pass on what the child writes."""
        os.close(self._writing)
        self._copier = threading.Thread(target=self._copy, daemon=True)
        self._copier.start()

    def finish(self, code: int) -> None:
        """Pass the rest on after the child's end, and write the file if the child has failed."""
        self._copier.join(_PIPE_TIMEOUT)
        if code in (0, TERMINATED, INTERRUPTED):
            return
        # A volume that hangs must not keep the pod from its end.
        writer = threading.Thread(target=self._write, daemon=True)
        writer.start()
        writer.join(_VOLUME_TIMEOUT)

    def _copy(self) -> None:
        while content := os.read(self._reading, 1 << 16):
            self._end = (self._end + content)[-LAST_BYTES:]
            with suppress(OSError):
                while content:
                    content = content[os.write(_STANDARD_ERROR, content) :]

    def _write(self) -> None:
        lines = self._end.decode(errors="ignore").splitlines()[-LAST_LINES:]
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Of a pod's slots, the first that failed says why.
            with self._file.open("x", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))


def run_in_child(
    body: Callable[[], int],
    last_lines: LastLines | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Run `body` in a forked child; return its exit code (128 + N if signal N ended it).

    The caller must be the only thread. The child ends with `os._exit`, because destructors may wait
    for other members. It is killed when this process is killed. The variables may ask for a side
    process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    waited = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        follow(parent)
        if last_lines is not None:
            last_lines.divert()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _end_with(body)
    side = SideProcess.from_environment(variables)
    try:
        if last_lines is not None:
            last_lines.begin()
        code: int | None = None
        while code is None:
            received = signal.sigwaitinfo(waited)
            if received.si_signo == signal.SIGCHLD:
                for process, ended_with in reap():
                    if process == child:
                        code = ended_with
                    elif side is not None:
                        side.reaped(process)
                continue
            if side is not None and received.si_signo == signal.SIGTERM:
                side.kill()
            if is_for_children(received):
                os.kill(child, received.si_signo)
        if side is not None and code != 0:
            side.kill()
        if last_lines is not None:
            last_lines.finish(code)
        if side is not None and code == 0:
            side.finish(waited)
        return code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_for_children(received: signal.struct_siginfo) -> bool:
    """Whether a signal must be forwarded, because the children did not receive it."""
    return received.si_code != _SI_KERNEL


def reap() -> Iterator[tuple[int, int]]:
    """Yield the processes that have ended, with their exit codes (128 + N for signal N).

    One SIGCHLD may be for several processes, and PID 1 also adopts orphans.
    """
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process:
            return
        code = os.waitstatus_to_exitcode(status)
        yield process, code if code >= 0 else 128 - code


def _end_with(body: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        code = body()
    except SystemExit as end:
        # So SIGTERM ends a body without its own handler.
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        # Even if the last output cannot be written.
        try:
            flush_or_drop()
        finally:
            os._exit(code)
