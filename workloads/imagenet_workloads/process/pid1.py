"""The process that the pod starts: it forks the one that works, and is a good PID 1 for it.

A scheduler or server sits in C++ for all its life, where Python's signal handlers never run, and
PID 1 ignores every signal it has no handler for: SIGTERM would do nothing until the grace is over.
So the work is done by a child, for which SIGTERM has its usual effect, while this process, which
never imports MXNet, passes signals on, reaps what dies, and ends as the child ended.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

from imagenet_workloads.process.parent_death_signal import follow
from imagenet_workloads.process.program import flush_or_drop

# What the child gets to decide about; all else keeps its usual effect on both.
FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# si_code of a signal from the kernel, such as a terminal's Ctrl-C, which the child gets as well.
_SI_KERNEL = 0x80


def run_in_child(body: Callable[[], int]) -> int:
    """Run `body` in a forked child; return its exit code (128 + N when signal N ended it).

    The caller must be the only thread. The child ends with `os._exit`, without running destructors
    that wait for other members; and it is killed when this process is.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    waited = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        follow(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _end_with(body)
    try:
        return _serve(child, waited)
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
    """Whether a signal has to be passed on, since it did not reach the children by itself."""
    return received.si_code != _SI_KERNEL


def reap() -> Iterator[tuple[int, int]]:
    """Give the processes that have ended, with their exit codes (128 + N by signal N).

    One SIGCHLD may stand for several; and of PID 1 the orphans of others are children as well.
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
        # So SIGTERM ends a body that has no better plans.
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    """End with this code, also where the last output cannot be written."""
    try:
        flush_or_drop()
    finally:
        os._exit(code)
