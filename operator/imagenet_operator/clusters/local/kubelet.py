"""The local scheduler and kubelet: starts and ends pods, each as processes of this machine.

`cluster` calls `start_pending` and `collect` after every change. They update the status of pods as
a kubelet does. A pod is Pending until its scheduling gates are removed and GPUs are free.

A pod is started from the main thread, with `pid1` as its init process. A pipe, the lifeline, makes
it die with `imagenetctl`. Every process of a pod has the pod's UID in its environment. So the
processes of a pod are found even if its init process was killed.
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import pid1, pods
from imagenet_operator.clusters.local.environments import is_member
from imagenet_operator.clusters.local.machine import Machine
from imagenet_operator.clusters.local.objects import Objects, is_ending, timestamp
from imagenet_spec.resource import Manifest

MARK = "IMAGENET_LOCAL_POD_UID"
"""The environment variable of every process of a local pod."""

NODE = "this-machine"
_MESSAGE_BYTES = 4096
"""Kubernetes' limit for a termination message, in bytes."""
_LOG_BYTES = 2048
"""Bytes of the log that replace a missing message."""
_DEFAULT_GRACE_PERIOD_SECONDS = 30


@dataclass(frozen=True)
class Launch:
    """The command, environment and files of one pod's program.

    Attributes:
        uid: The pod's UID, which marks its processes.
        command: Absolute path of the program, then its arguments.
        environment: The whole environment of the program, without the mark.
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


@dataclass
class _Running:
    pod: Manifest
    process: PodProcess
    started: str
    kill_at: float | None = None


class Kubelet:
    """Runs the pods of one local cluster; the selector becomes ready when a pod ends."""

    def __init__(
        self, machine: Machine, objects: Objects, selector: selectors.BaseSelector
    ) -> None:
        self._machine = machine
        self._objects = objects
        self._selector = selector
        self._running: dict[str, _Running] = {}

    def has(self, pod: Manifest) -> bool:
        return pod["metadata"]["name"] in self._running

    def kill_at(self) -> float | None:
        """Return when the next grace period ends, by time.monotonic()."""
        times = [entry.kill_at for entry in self._running.values() if entry.kill_at is not None]
        return min(times, default=None)

    def start_pending(self) -> bool:
        """Start every pod that can start now; return whether one did."""
        started = False
        for pod in self._objects.kind("Pod"):
            if pod["status"].get("phase") == "Pending" and not is_ending(pod):
                if pod["spec"].get("schedulingGates"):
                    _set_conditions(pod, {"PodScheduled": ("False", "SchedulingGated")})
                    continue
                gpus = self._machine.gpus.take(pod["metadata"]["name"], pods.gpus(pod))
                if gpus is None:
                    _set_conditions(pod, {"PodScheduled": ("False", "Unschedulable")})
                    continue
                self._start(pod, gpus)
                started = True
        return started

    def collect(self) -> bool:
        """Update ended pods, and kill those past their grace period; return whether one ended."""
        ended = False
        for name, entry in list(self._running.items()):
            if entry.kill_at is not None and time.monotonic() >= entry.kill_at:
                entry.process.kill()
                entry.kill_at = None
            descriptor = entry.process.fileno()
            code = entry.process.exit_code()
            if code is not None:
                self._selector.unregister(descriptor)
                del self._running[name]
                self._machine.gpus.release(name)
                self._machine.addresses.release(name)
                pod = entry.pod
                terminated: Manifest = {
                    "exitCode": code,
                    "reason": "Completed" if code == 0 else "Error",
                    "startedAt": entry.started,
                    "finishedAt": timestamp(datetime.now(UTC)),
                }
                if message := self._message(pod, code):
                    terminated["message"] = message
                pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
                reason = "PodCompleted" if code == 0 else "PodFailed"
                _set_conditions(pod, {"PodScheduled": ("True", None), "Ready": ("False", reason)})
                _set_container(pod, {"terminated": terminated}, ready=False)
                ended = True
        return ended

    def terminate(self, pod: Manifest, grace: float | None = None) -> None:
        """Send SIGTERM now, and SIGKILL after the grace period: `grace`, or else the pod's own."""
        entry = self._running.get(pod["metadata"]["name"])
        if entry is not None and entry.kill_at is None:
            if grace is None:
                grace = pod["spec"].get(
                    "terminationGracePeriodSeconds", _DEFAULT_GRACE_PERIOD_SECONDS
                )
            entry.process.terminate()
            entry.kill_at = time.monotonic() + grace

    def kill(self) -> None:
        for entry in self._running.values():
            entry.process.kill()

    def forget(self, pod: Manifest) -> None:
        name = pod["metadata"]["name"]
        self._machine.addresses.release(name)
        shutil.rmtree(self._scratch(pod), ignore_errors=True)

    def _scratch(self, pod: Manifest) -> Path:
        return self._machine.scratch / str(pod["metadata"]["name"])

    def _start(self, pod: Manifest, gpus: tuple[str, ...]) -> None:
        metadata = pod["metadata"]
        name = metadata["name"]
        address = self._machine.addresses.of(name)
        now = timestamp(datetime.now(UTC))
        pod["spec"]["nodeName"] = NODE
        pod["status"].update(podIP=address, hostIP="127.0.0.1", startTime=now)
        try:
            process = PodProcess(self._launch(pod, address, gpus))
        except OSError as error:
            raise LocalError(f"cannot start pod {name}: {error}") from error
        self._selector.register(process.fileno(), selectors.EVENT_READ)
        self._running[name] = _Running(pod, process, now)
        pod["status"]["phase"] = "Running"
        _set_conditions(pod, {"PodScheduled": ("True", None), "Ready": ("True", None)})
        _set_container(pod, {"running": {"startedAt": now}}, ready=True)

    def _launch(self, pod: Manifest, address: str, gpus: tuple[str, ...]) -> Launch:
        metadata = pod["metadata"]
        scratch = self._scratch(pod)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        paths = pods.mounts(pod, self._machine.volumes, scratch)
        for folder in paths.values():
            folder.mkdir(parents=True, exist_ok=True)
        message = self._message_file(pod)
        message.touch()
        environment = pods.environment(
            pod,
            pods.Surroundings(
                environment=self._machine.environment,
                paths={**paths, pods.termination_path(pod): message},
                address=address,
                peer=self._peer,
                gpus=gpus,
                node=NODE,
            ),
        )
        program, *arguments = pods.command(pod, environment)
        found = self._machine.programs.find(program, trains=is_member(pod))
        return Launch(
            pod=metadata["name"],
            uid=metadata["uid"],
            command=(str(found), *arguments),
            environment=environment,
            folder=scratch,
            log=self._log(pod),
            shared=self._machine.shared,
        )

    def _peer(self, pod: str, service: str) -> str | None:
        """Return the address of POD.SERVICE, even before the pod exists."""
        namespaced = service.split(".")  # SERVICE[.NAMESPACE[.svc…]]
        if self._objects.get("Service", namespaced[0]) is None:
            return None
        return self._machine.addresses.of(pod)

    def _message_file(self, pod: Manifest) -> Path:
        return self._scratch(pod) / ".termination-message"

    def _log(self, pod: Manifest) -> Path:
        return self._machine.logs / f"{pod['metadata']['name']}.log"

    def _message(self, pod: Manifest, code: int) -> str:
        """Return the termination message, or the end of the log if the pod asks for it."""
        with contextlib.suppress(OSError):
            with self._message_file(pod).open("rb") as file:
                message = file.read(_MESSAGE_BYTES).decode(errors="replace")
            policy = pod["spec"]["containers"][0].get("terminationMessagePolicy")
            if message or code == 0 or policy != "FallbackToLogsOnError":
                return message
            return tail(self._log(pod), _LOG_BYTES)
        return ""


def tail(path: Path, size: int) -> str:
    """Return the last bytes of a text file, from the start of a line."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        text = file.read().decode(errors="replace")
    return text if len(text) < size else text.partition("\n")[2]


def _set_conditions(pod: Manifest, conditions: Mapping[str, tuple[str, str | None]]) -> None:
    pod["status"]["conditions"] = [
        {"type": kind, "status": status} | ({"reason": reason} if reason else {})
        for kind, (status, reason) in conditions.items()
    ]


def _set_container(pod: Manifest, state: Manifest, *, ready: bool) -> None:
    container = pod["spec"]["containers"][0]
    pod["status"]["containerStatuses"] = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }
    ]
