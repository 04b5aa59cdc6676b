"""A process that follows another one into death."""

import subprocess
import sys

from support.processes import is_running, wait_until

PARENT = """
import os, subprocess, sys
followed = sys.argv[1] or str(os.getpid())
command = [sys.executable, "-m", "imagenet_workloads.process.parent_death_signal", followed]
child = subprocess.Popen([*command, sys.executable, "-c", sys.argv[2]], stdout=sys.stdout)
if sys.argv[1]:
    sys.exit(child.wait())
child.wait()
"""


def begin(parent: str, program: str) -> subprocess.Popen[str]:
    """Start a parent whose child follows it, or follows the process that is named instead."""
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, parent, program], stdout=subprocess.PIPE, text=True
    )


def test_the_command_runs_in_its_place_and_dies_with_the_parent() -> None:
    parent = begin("", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    parent.wait()
    wait_until(lambda: not is_running(child), "the child is gone")


def test_an_orphan_does_not_begin() -> None:
    # Process 1 as the parent: as if the real parent had died.
    parent = begin("1", "print('began', flush=True)")
    output, _ = parent.communicate(timeout=60)
    assert output == ""
    assert parent.returncode == 1
