"""A pod's processes, seen from `imagenetctl`: start, stop, and the exit code.

`cluster.py` starts one `PodProcess` a pod, always from its main thread. Between the two stands
`pid1.py`; the pipe that both hold, the lifeline, is what makes the pod die with `imagenetctl`.
Every process of a pod carries the pod's UID in its environment, by which what is left of a pod
whose init was killed is found.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_operator.clusters.local import pid1

MARK = "IMAGENET_LOCAL_POD_UID"
"""The variable that every process of a local pod carries."""


@dataclass(frozen=True)
class Launch:
    """Everything that one pod's program needs to start.

    Attributes:
        pod: The pod's name, shown in the list of processes.
        uid: The pod's UID, its processes' mark.
        command: Absolute path of the program, then its arguments.
        environment: The whole environment of the program, without the mark.
        folder: Its current directory.
        log: Where its standard output and error are appended.
        shared: File descriptors that stay open for as long as the pod lives (locks).
    """

    pod: str
    uid: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    shared: tuple[int, ...] = ()


class PodProcess:
    """The running processes of one pod."""

    def __init__(self, launch: Launch) -> None:
        self._uid = launch.uid
        reader, self._lifeline = os.pipe2(os.O_CLOEXEC)
        command = [sys.executable, "-I", "-S", pid1.__file__, launch.pod, str(reader)]
        try:
            with launch.log.open("ab") as log:
                self._init = subprocess.Popen(
                    [*command, *launch.command],
                    env={**launch.environment, MARK: launch.uid},
                    cwd=launch.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(reader, *launch.shared),
                    start_new_session=True,  # Ctrl-C in the terminal is for imagenetctl alone
                )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(reader)
        self._pidfd = os.pidfd_open(self._init.pid)
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        """The process id of the pod's init."""
        return self._init.pid

    def fileno(self) -> int:
        """A descriptor that becomes readable when the pod ends, for a selector."""
        return self._pidfd

    def terminate(self) -> None:
        """Ask the program to end (SIGTERM), as the start of a pod's grace period does."""
        self._init.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill every process of the pod (SIGKILL), as the end of the grace period does."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            if self._exit_code is None:
                self._init.send_signal(signal.SIGCONT)  # an init that was stopped would not notice

    def exit_code(self) -> int | None:
        """The pod's exit code, None while it runs; once it is known, no process is left."""
        if self._exit_code is None:
            code = self._init.poll()
            if code is not None:
                if code < 0:  # the init was killed: it could not see to the processes below
                    kill_marked(self._uid)
                    code = 128 - code
                self._exit_code = code
                self.kill()
                os.close(self._pidfd)
        return self._exit_code


def marked(uid: str) -> list[int]:
    """The ids of the living processes that carry a pod's mark."""
    mark = f"{MARK}={uid}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # ended meanwhile, or another user's
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def kill_marked(uid: str) -> None:
    """Kill the processes that carry a pod's mark, until none is left."""
    while processes := marked(uid):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def find_program(name: str, folders: Sequence[Path]) -> Path | None:
    """The executable of a name in the first folder that has it; an absolute path stands for itself.

    Args:
        name: A pod's command, such as `imagenet-train`.
        folders: Where to look, in order.
    """
    for folder in folders:
        candidate = folder / name  # an absolute name replaces the folder
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None


def program_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where pods' programs are looked for: beside this Python, then on the PATH."""
    search_path = environment.get("PATH", os.defpath)
    on_path = (Path(folder) for folder in search_path.split(os.pathsep) if folder)
    return (Path(sys.executable).parent, *on_path)
