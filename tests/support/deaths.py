"""Kills this process at one of its operations on files."""

import os
import signal
import sys

# The audit events that CPython raises just before an operation on a file.
OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir"}


def die_before(operation: int) -> None:
    """From now on, kills this process just before its n-th operation on a file."""
    remaining = operation

    def hook(event: str, arguments: object) -> None:
        nonlocal remaining
        if event in OPERATIONS:
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            remaining -= 1

    sys.addaudithook(hook)
