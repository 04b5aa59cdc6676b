"""No process outlives the one that started it, not even by kill -9.

`pid1` asks for that in the child that it forks. A parent that has threads may run no Python between
`fork` and `exec`, so `slots.launcher` starts commands through this module as a program:

    python -m imagenet_workloads.process.parent_death_signal PARENT COMMAND ARGUMENT…
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def follow(parent: int) -> None:
    """Have this process killed when its parent dies; end it at once where that has happened."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Become the command."""
    follow(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
