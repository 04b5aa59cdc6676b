"""The first process of a local pod: an init process between `imagenetctl` and the program.

`kubelet.py` starts it as `python -I -S pid1.py POD LIFELINE PROGRAM ARGUMENT...`, where LIFELINE
is the number of an inherited pipe's read end. It does what a container's init and its cgroup do in
a cluster. It imports only a part of the standard library, to start in milliseconds:

- SIGTERM and SIGINT are forwarded to the program;
- it returns the program's exit code (128 + signal for a killed one, as a kubelet reports it);
- when the program has ended, all processes below it are killed;
- when the lifeline closes, because `imagenetctl` closed it or died (even by kill -9), all processes
  below are killed;
- when this process itself is killed, the kernel kills the program (PR_SET_PDEATHSIG).
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILLED = 128 + signal.SIGKILL
CANNOT_EXECUTE = 126
"""The shell's exit code for a program that exists but cannot be executed."""

FORWARDED = (signal.SIGTERM, signal.SIGINT)
ORPHANED = signal.SIGHUP
"""The signal from the kernel when `imagenetctl` has died."""


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process by the system call of the same name."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def start(command: list[str]) -> int:
    """Fork and execute the pod's program; return its process id.

    Signals are blocked until the child has reset this process's handlers, so that none is lost.
    """
    init = os.getpid()
    held = (*FORWARDED, ORPHANED)
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        return child
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != init:  # the init process died before the line above took effect
            os._exit(KILLED)
        # Python ignores SIGPIPE and SIGXFSZ, and an ignored signal outlives an exec.
        for number in (*held, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        os.execv(command[0], command)
    except OSError as error:
        print(f"cannot execute {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(CANNOT_EXECUTE)


def reap(child: int) -> int | None:
    """Reap all processes that have ended; return the program's exit code if it was among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = exit_code(status)
    return code


def exit_code(status: int) -> int:
    """Return the exit code of a wait status: 128 + signal for a killed process."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def descendants(ancestor: int) -> list[int]:
    """Return the descendants of a process, by the parents in /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                # The name before ")" may contain any character; the state and the parent follow.
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[int] = []
    frontier = [ancestor]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def kill_descendants() -> None:
    """Kill everything below this process and wait until nothing is left.

    This process is their subreaper: what is orphaned by a kill becomes its child, so that "no
    children" means that no descendant lives. What was forked during a look at /proc is met by the
    next one, after the death that the wait reports.
    """
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def watch(child: int, lifeline: int, signals: int) -> int:
    """Serve the program until it or the lifeline ends; return the exit code of the pod."""
    while True:
        readable, _, _ = select.select([lifeline, signals], [], [])
        if lifeline in readable:  # nothing is ever written to it: readable means closed
            return KILLED
        received = os.read(signals, 4096)
        if ORPHANED in received:
            return KILLED
        if any(number in received for number in FORWARDED):
            os.kill(child, signal.SIGTERM)
        code = reap(child)
        if code is not None:
            return code


def listen() -> int:
    """Write signals as bytes into a pipe; return its read end."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer)
    for number in (*FORWARDED, ORPHANED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def main(arguments: list[str]) -> int:
    """Run one pod's program; return its exit code."""
    _pod, lifeline, *command = arguments
    signals = listen()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, ORPHANED)
    # The program does not inherit the lifeline and the locks.
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names, not paths)
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)
    code = watch(start(command), int(lifeline), signals)
    kill_descendants()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
