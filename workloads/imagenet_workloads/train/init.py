"""The process that the pod starts: it forks the one that works, and is a good PID 1 for it.

A scheduler or server sits in C++ for all its life, where Python's signal handlers never run, and
PID 1 ignores every signal it has no handler for: SIGTERM would do nothing until the grace is over.
So the work is done by a child, for which SIGTERM has its usual effect, while this process, which
never imports MXNet, passes signals on, reaps what dies, and ends as the child ended.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

# What the child gets to decide about; all else keeps its usual effect on both.
FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_PR_SET_PDEATHSIG = 1
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
        _die_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _end_with(body)
    try:
        return _serve(child, waited)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(child: int, waited: set[signal.Signals]) -> int:
    while True:
        received = signal.sigwaitinfo(waited)
        if received.si_signo != signal.SIGCHLD:
            if received.si_code != _SI_KERNEL:
                os.kill(child, received.si_signo)
            continue
        # As PID 1 also the orphans of others; one SIGCHLD may stand for several.
        while (ended := _reap()) is not None:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else 128 - code


def _reap() -> tuple[int, int] | None:
    try:
        process, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (process, status) if process else None


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _end_with(body: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        code = body()
    except SystemExit as end:
        # A server's `import mxnet` ends this way when the job is over.
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
