"""Programs of the measurement: how one is run, and where its output stays."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

BENCH = Path("build/bench")
THREADS = 2
# Runs what follows before all else on the machine, and so as if that were idle.
REAL_TIME = ("chrt", "--rr", "5")


class Outcome(NamedTuple):
    """How a program ran.

    Attributes:
        seconds: from its start to its end.
        cpu: seconds of CPU, user and system, of all its processes.
        output: its stdout.
    """

    seconds: float
    cpu: float
    output: str


NOTHING = Outcome(0.0, 0.0, "")
"""Of a step without a program."""


def run(*command: str | Path, real_time: bool = False) -> Outcome:
    """Runs a program to its end.

    Args:
        command: the program and its arguments.
        real_time: nothing else may run meanwhile; afterwards it may for as long.

    Raises:
        SystemExit: it failed.
    """
    command = (*REAL_TIME, *command) if real_time else command
    output, errors = BENCH / "stdout.txt", BENCH / "stderr.txt"
    # im2rec leaves its output in memory; writing it must not fall into the next program's time.
    os.sync()
    start, cpu = time.monotonic(), _cpu_of_children()
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        process = subprocess.run(
            [str(part) for part in command],
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    seconds, cpu = time.monotonic() - start, _cpu_of_children() - cpu
    if process.returncode:
        sys.exit(f"{command} failed: {process.returncode}\n{errors.read_text()}")
    if real_time:
        time.sleep(seconds)
    return Outcome(seconds, cpu, output.read_text())


def _cpu_of_children() -> float:
    """Seconds of CPU of all children that have ended, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def script(name: str) -> Path:
    """One of our programs, beside this Python."""
    return Path(sys.executable).with_name(f"imagenet-{name}")
