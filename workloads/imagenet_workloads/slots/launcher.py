"""Runs a pod's slots: waits for the rendezvous, starts them, and ends all as soon as one fails.

`commands.slots` calls `launch`. It needs no framework and no Horovod: the command has them.
`imagenet-train` is started at once: it loads both, and then waits for the rendezvous by itself.
"""

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from imagenet_spec.names import IMAGENET_METRICS_PORT, IMAGENET_TERMINATION_LOG, POD_IP
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.process import parent_death_signal
from imagenet_workloads.process.pid1 import FORWARDED, is_for_children, reap
from imagenet_workloads.process.program import TERMINATION_MESSAGE_BYTES, leave_message
from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.rendezvous.horovod import HorovodSlot
from imagenet_workloads.rendezvous.slot import Slot
from imagenet_workloads.rendezvous.waiting import wait_for_port
from imagenet_workloads.slots.metrics import SlotMetrics
from imagenet_workloads.slots.shares import environments
from imagenet_workloads.telemetry.server import serve

_log = logging.getLogger(__name__)

DEVICES = Path("/dev")
WAITING_PROGRAM = "imagenet-train"
# The signals that end a pod, which has its own grace period.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@dataclass
class Slots:
    """The slots that run, by process id.

    Attributes:
        running: local ranks of those that have not ended.
        grace: seconds that the others have to end after one has failed.
        failed: local rank and exit code of the first that did; None until then.
        killing_at: when the rest is killed; None as long as nothing has failed by itself.
    """

    running: dict[int, int]
    grace: float
    failed: tuple[int, int] | None = None
    killing_at: float | None = None
    _ending: bool = field(default=False, repr=False)

    def attend(self, waited: set[signal.Signals]) -> None:
        """Pass signals on and take in who ends, until all have."""
        while self.running:
            received = (
                signal.sigwaitinfo(waited)
                if self.killing_at is None
                else signal.sigtimedwait(waited, max(self.killing_at - time.monotonic(), 0))
            )
            if received is None:
                self._send(signal.SIGKILL)
                self.killing_at = None
            elif received.si_signo == signal.SIGCHLD:
                for process, code in reap():
                    self._ended(process, code)
            else:
                self._ending = self._ending or received.si_signo in ENDING
                if is_for_children(received):
                    self._send(received.si_signo)

    def _ended(self, process: int, code: int) -> None:
        local_rank = self.running.pop(process, None)
        if local_rank is None or code == 0 or self.failed is not None:
            return
        self.failed = local_rank, code
        if self.running and not self._ending:
            _log.warning("slot %d ended with exit code %d; the others follow", local_rank, code)
            self.killing_at = time.monotonic() + self.grace
            self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        for process in self.running:
            os.kill(process, number)


def launch(
    command: Sequence[str],
    slots: int,
    join_timeout: float,
    grace: float,
    variables: Mapping[str, str],
) -> int:
    """Run the slots to their end; return the exit code of the first that failed, or 0.

    Args:
        command: of each slot.
        slots: how many.
        join_timeout: seconds to wait for the rendezvous.
        grace: seconds that the others have to end after one has failed.
        variables: the environment of the pod, which is that of its first slot.

    Raises:
        InputError: the command or the environment is wrong.
        WorkloadError: there is no rendezvous.
    """
    first: Slot | None = HorovodSlot.from_mapping(variables) or Process.from_mapping(variables)
    if first is None:
        raise InputError(
            "HOROVOD_RANK is unset, and so is RANK; imagenet-slots runs in a pod of Horovod's "
            "(HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_GLOO_RENDEZVOUS_ADDR and so on) or of "
            "DistributedDataParallel's (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)"
        )
    whole = [find_program(command[0]), *command[1:]]
    devices = visible_devices(variables, DEVICES)
    shares = environments(variables, first.variables, slots, devices, os.getpid())
    environment = Environment.from_mapping(variables)
    metrics = SlotMetrics(f"{first.awaited} {first.host}:{first.port}")
    serve(metrics, environment, metrics.readiness)
    if first.awaited and Path(whole[0]).name != WAITING_PROGRAM:
        who = f"the pod of rank {first.rank}"
        wait_for_port(who, first.awaited, first.host, first.port, join_timeout)
    with tempfile.TemporaryDirectory(dir=environment.scratch) as folder:
        for local_rank, share in enumerate(shares):
            share[IMAGENET_TERMINATION_LOG] = str(Path(folder, str(local_rank)))
        metrics.begin([(share[POD_IP], int(share[IMAGENET_METRICS_PORT])) for share in shares])
        failed = _run(whole, shares, grace)
        if text := _termination_message(failed, Path(folder)):
            leave_message(text, variables)
    return failed[1] if failed else 0


def _run(
    command: Sequence[str], shares: Sequence[Mapping[str, str]], grace: float
) -> tuple[int, int] | None:
    """Run the slots to their end; give local rank and exit code of the first that failed."""
    waited = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        wrapped = [sys.executable, "-m", parent_death_signal.__name__, str(os.getpid()), *command]
        started = [
            os.posix_spawn(sys.executable, wrapped, share, setsigmask=[]) for share in shares
        ]
        slots = Slots({process: place for place, process in enumerate(started)}, grace)
        slots.attend(waited)
        return slots.failed
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _termination_message(failed: tuple[int, int] | None, messages: Path) -> str:
    """Return the termination message of the slot that failed first, or of the first slot."""
    local_rank, code = failed or (0, 0)
    message = messages / str(local_rank)
    if message.is_file():
        # Another command may write more; Kubernetes keeps the end.
        end = message.read_bytes()[-TERMINATION_MESSAGE_BYTES:]
        # Without the half of a character that the cut may have left.
        return end.decode(errors="ignore")
    return f"slot {local_rank} ended with exit code {code}" if failed else ""


def find_program(name: str) -> str:
    """Return a command's path: as it is written, beside this program, or on the PATH.

    Raises:
        InputError: there is none.
    """
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=None if "/" in name else beside)
    if found is None:
        raise InputError(f"{name}: there is no such program to run in the slots")
    return found


def visible_devices(variables: Mapping[str, str], folder: Path) -> list[str]:
    """Return the GPUs that this pod may use, as CUDA_VISIBLE_DEVICES calls them.

    Kubernetes gives a container the device files of its GPUs, which CUDA counts from 0.

    Args:
        variables: the environment; CUDA_VISIBLE_DEVICES in it says all.
        folder: of device files.
    """
    if "CUDA_VISIBLE_DEVICES" in variables:
        return [
            part.strip() for part in variables["CUDA_VISIBLE_DEVICES"].split(",") if part.strip()
        ]
    files = [path for path in folder.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(number) for number in range(len(files))]
