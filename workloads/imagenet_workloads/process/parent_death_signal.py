"""Ends a process with its parent, even after kill -9.

`pid1` calls it in the child that it forks. A parent with threads may not run Python between `fork`
and `exec`, so `slots` starts commands by this module as a program:

    python -m imagenet_workloads.process.parent_death_signal PARENT COMMAND ARGUMENT…
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def follow(parent: int) -> None:
    """Let the kernel kill this process when its parent dies; exit at once if the parent is dead."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Execute the command."""
    follow(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
