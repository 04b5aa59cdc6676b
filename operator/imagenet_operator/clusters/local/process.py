"""A pod's processes: start, stop, and exit code.

`kubelet` starts one `PodProcess` a pod, always from the main thread, with `pid1` as its init
process. A pipe, the lifeline, makes the pod die with `imagenetctl`. Every process of a pod has the
pod's UID in its environment. So the processes of a pod are found even if its init process was
killed.
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
"""The environment variable of every process of a local pod."""


@dataclass(frozen=True)
class Launch:
    """The command, environment and files of one pod's program.

    Attributes:
        pod: The pod's name, shown in the list of processes.
        uid: The pod's UID, which marks its processes.
        command: Absolute path of the program, then its arguments.
        environment: The whole environment of the program, without the mark.
        folder: Its current directory.
        log: The file to which standard output and error are appended.
        shared: File descriptors (locks) that stay open while the pod runs.
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
                    start_new_session=True,  # only imagenetctl gets Ctrl-C from the terminal
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
        """The process id of the pod's init process."""
        return self._init.pid

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the pod ends."""
        return self._pidfd

    def terminate(self) -> None:
        """Send SIGTERM, as at the start of a pod's grace period."""
        self._init.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to every process, as at the end of the grace period."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            if self._exit_code is None:
                self._init.send_signal(signal.SIGCONT)  # a stopped init process would not notice

    def exit_code(self) -> int | None:
        """Return the pod's exit code once no process is left; None while it runs."""
        if self._exit_code is None:
            code = self._init.poll()
            if code is not None:
                if code < 0:  # the init process was killed before it could kill its descendants
                    kill_marked(self._uid)
                    code = 128 - code
                self._exit_code = code
                self.kill()
                os.close(self._pidfd)
        return self._exit_code


def marked(uid: str) -> list[int]:
    """Return the ids of the running processes with a pod's mark."""
    mark = f"{MARK}={uid}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def kill_marked(uid: str) -> None:
    """Kill the processes with a pod's mark, until none is left."""
    while processes := marked(uid):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def find_program(name: str, folders: Sequence[Path]) -> Path | None:
    """Return a program's path in the first folder that has it; an absolute path stays.

    Args:
        name: A pod's command, such as `imagenet-train`.
        folders: The folders to search, in order.
    """
    for folder in folders:
        candidate = folder / name  # joining an absolute name drops the folder
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None


def program_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of pods' programs: that of this Python, then the PATH."""
    return (Path(sys.executable).parent, *path_folders(environment))


def path_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the PATH, in order."""
    search_path = environment.get("PATH", os.defpath)
    return tuple(Path(folder) for folder in search_path.split(os.pathsep) if folder)
