"""Conditions to wait for, and a look at the processes of this machine."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DEADLINE_SECONDS = 280.0
"""A busy machine takes long; a test has 300 s in all."""


def wait_until(condition: Callable[[], T], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """Wait until a condition gives something true; its value. Fails after a long deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)
    return value


def processes_with(mark: str) -> list[int]:
    """The living processes whose environment or arguments hold a text."""
    wanted = mark.encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            texts = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if wanted in texts:
            found.append(int(folder.name))
    return found


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def program_of(pod: str, workdir: Path) -> int:
    """The process id of the program that a pod of a local run executes."""
    for pid in processes_with(f"POD_NAME={pod}\0"):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        # The init has the pod's environment too, and the pod's name among its arguments.
        if str(workdir).encode() in environment and pod.encode() not in arguments:
            return pid
    raise AssertionError(f"{pod} does not run")
