"""PID 1 of a pod: forks the process that works, forwards signals and reaps.

A scheduler or server stays in C++, where Python's signal handlers never run. PID 1 ignores signals
without a handler, so SIGTERM would have no effect until the grace period is over. So a child does
the work, for which SIGTERM has its default effect. This process never imports MXNet. It forwards
signals, reaps processes, and exits as the child did.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

from imagenet_workloads.process.last_lines import LastLines
from imagenet_workloads.process.parent_death_signal import follow
from imagenet_workloads.process.program import flush_or_drop

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


def run_in_child(body: Callable[[], int], last_lines: LastLines | None = None) -> int:
    """Run `body` in a forked child; return its exit code (128 + N if signal N ended it).

    The caller must be the only thread. The child ends with `os._exit`, because destructors may wait
    for other members. It is killed when this process is killed.

    Args:
        body: Returns an exit code.
        last_lines: Keeps the end of the child's standard error.
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
    try:
        if last_lines is not None:
            last_lines.begin()
        code = _serve(child, waited)
        if last_lines is not None:
            last_lines.finish(code)
        return code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(child: int, waited: set[signal.Signals]) -> int:
    while True:
        received = signal.sigwaitinfo(waited)
        if received.si_signo == signal.SIGCHLD:
            for process, code in reap():
                if process == child:
                    return code
        elif is_for_children(received):
            os.kill(child, received.si_signo)


def is_for_children(received: signal.struct_siginfo) -> bool:
    """Whether a signal must be forwarded, because the children did not receive it."""
    return received.si_code != _SI_KERNEL


def reap() -> Iterator[tuple[int, int]]:
    """Return the processes that have ended, with their exit codes (128 + N for signal N).

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
        _leave(code)


def _leave(code: int) -> NoReturn:
    """Exit with this code, even if the last output cannot be written."""
    try:
        flush_or_drop()
    finally:
        os._exit(code)
