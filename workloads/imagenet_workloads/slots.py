"""A pod of several slots: processes of one job that share the pod's devices and threads.

`launch` waits for the rendezvous, starts them, and ends all as soon as one fails. `environments`
gives each its place and its share. `SlotMetrics` makes one page of their metrics: each scrape asks
the slots, over loopback. Counters, histograms, speed and memory are added up. The time before an
exchange of gradients has a series for each slot, because the slowest slot counts. All else, such as
the epoch, the accuracy or the account of time, is the same in every slot or reported by the first
rank: the first slot that has it counts.

`commands.slots` calls `launch`. It needs no framework and no Horovod: the command has them.
`imagenet-train` is started at once: it loads both, and then waits for the rendezvous by itself.
"""

import http.client
import ipaddress
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from imagenet_spec.metrics import (
    SLOT_LABEL,
    TRAIN_BEFORE_EXCHANGE,
    TRAIN_EXCHANGES,
    TRAIN_GPU_UTILIZATION,
    TRAIN_IMAGES_PER_SECOND,
    TRAIN_SECONDS,
)
from imagenet_spec.names import (
    IMAGENET_CPUS,
    IMAGENET_METRICS_PORT,
    IMAGENET_TERMINATION_LOG,
    IMAGENET_TRACKING,
    POD_IP,
    TRAIN_PROGRAM,
)
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.process import parent_death_signal
from imagenet_workloads.process.pid1 import FORWARDED, is_for_children, reap
from imagenet_workloads.process.program import TERMINATION_MESSAGE_BYTES, leave_message
from imagenet_workloads.process.side_process import SideProcess
from imagenet_workloads.rendezvous import number
from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.rendezvous.horovod import HorovodSlot
from imagenet_workloads.rendezvous.slot import MOST_PROCESSES, Slot, SlotVariables
from imagenet_workloads.rendezvous.waiting import is_loopback, wait_for_port
from imagenet_workloads.telemetry.server import serve

ADDED_TYPES = ("counter", "histogram", "summary")
ADDED_GAUGES = (
    TRAIN_IMAGES_PER_SECOND.name,
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
)
# Each slot has as many GPUs.
AVERAGED_GAUGES = (TRAIN_GPU_UTILIZATION.name,)
# Seconds of several slots at once are no wall time. The parser names a counter without its suffix.
NOT_ADDED = (TRAIN_SECONDS.name.removesuffix("_total"),)
OF_EACH_SLOT = tuple(
    metric.name.removesuffix("_total") for metric in (TRAIN_BEFORE_EXCHANGE, TRAIN_EXCHANGES)
)

# A series: its name and its labels.
_Key = tuple[str, tuple[tuple[str, str], ...]]
# Seconds that a slot may take to answer, well below the timeout of a scrape.
ANSWER_TIMEOUT = 2.0


class SlotMetrics(Collector):
    """The slots' metrics, to serve, collected at each scrape."""

    def __init__(self, wanted: str) -> None:
        self._missing: str | None = wanted
        self._addresses: Sequence[tuple[str, int]] = ()
        self._pages: list[str] = []
        self.exported = CollectorRegistry()
        self.exported.register(self)

    def begin(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._pages = [""] * len(addresses)
        self._addresses, self._missing = addresses, None

    def readiness(self) -> str | None:
        """Say what the first slot that is not at work has not done yet; None when all are."""
        if self._missing is not None:
            return f"waits for {self._missing}"
        for local_rank, (status, text) in enumerate(self._ask("/readyz")):
            if status != http.client.OK:
                return f"slot {local_rank}: {text.strip() or 'does not answer yet'}"
        return None

    def collect(self) -> Iterable[Family]:
        """Return the pod's families; a slot that does not answer keeps what it last said.

        Otherwise a sum would fall, which Prometheus takes for a counter that began again.
        """
        for local_rank, (status, text) in enumerate(self._ask("/metrics")):
            if status == http.client.OK:
                self._pages[local_rank] = text
        return aggregate(self._pages)

    def _ask(self, path: str) -> list[tuple[int, str]]:
        if not self._addresses:
            return []
        with ThreadPoolExecutor(len(self._addresses)) as pool:
            return list(pool.map(lambda address: _get(address, path), self._addresses))


def _get(address: tuple[str, int], path: str) -> tuple[int, str]:
    """Get a page; (0, "") without an answer."""
    connection = http.client.HTTPConnection(*address, timeout=ANSWER_TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def aggregate(pages: Iterable[str]) -> list[Family]:
    """Make one page of the slots' pages, in the order of their ranks.

    They are in Prometheus's text format; an empty one is a slot that has not answered yet.
    """
    found: dict[str, Family] = {}
    samples: dict[str, dict[_Key, Sample]] = {}
    reported = Counter[str]()
    every = list(pages)
    for slot, page in enumerate(every):
        for family in text_string_to_metric_families(page):
            found.setdefault(family.name, family)
            reported[family.name] += 1
            more = family.samples
            if family.name in OF_EACH_SLOT and len(every) > 1:
                label = {SLOT_LABEL: str(slot)}
                more = [sample._replace(labels={**sample.labels, **label}) for sample in more]
            is_added = family.name not in NOT_ADDED and (
                family.type in ADDED_TYPES or family.name in (*ADDED_GAUGES, *AVERAGED_GAUGES)
            )
            known = samples.setdefault(family.name, {})
            for sample in more:
                key = sample.name, tuple(sorted(sample.labels.items()))
                before = known.setdefault(key, sample)
                if is_added and before is not sample:
                    known[key] = before._replace(value=before.value + sample.value)
    for name, family in found.items():
        family.samples = list(samples[name].values())
        if name in AVERAGED_GAUGES:
            family.samples = [
                sample._replace(value=sample.value / reported[name]) for sample in family.samples
            ]
    return list(found.values())


# Of the slot with local rank 0, on the loopback address that `metrics_address` gives.
FIRST_METRICS_PORT = 9100


def environments(
    variables: Mapping[str, str],
    names: SlotVariables,
    slots: int,
    devices: Sequence[str],
    launcher: int,
) -> list[dict[str, str]]:
    """Return the environment of each slot, by local rank.

    Args:
        variables: the pod's, which are those of its first slot.
        names: of the variables that the slots differ in.
        slots: how many.
        devices: the GPUs that the pod has, as CUDA_VISIBLE_DEVICES calls them.
        launcher: its process id.

    Raises:
        InputError: the pod's variables are wrong, or its GPUs cannot be shared equally.
    """
    size = number(variables, names.size, slots, MOST_PROCESSES)
    first = number(variables, names.rank, 0, size - slots)
    if number(variables, names.local_size, 1, size) != slots:
        raise InputError(
            f"--slots is {slots}, but {names.local_size} is {variables[names.local_size]}: "
            "write the same number"
        )
    if len(devices) % slots:
        raise InputError(
            f"{slots} slots cannot share {len(devices)} GPUs equally; name some in "
            "CUDA_VISIBLE_DEVICES, or none to train on the CPU"
        )
    common = {**variables, POD_IP: metrics_address(launcher)}
    # One for the pod, which the launcher starts.
    common.pop(IMAGENET_TRACKING, None)
    for name in ("OMP_NUM_THREADS", IMAGENET_CPUS):
        if variables.get(name, "").isdecimal():
            common[name] = str(max(int(variables[name]) // slots, 1))
    if "HOROVOD_GLOO_IFACE" not in variables and is_loopback(variables.get(POD_IP, "")):
        # All pods are on this machine, whose own name may lead to an address that it cannot reach.
        common["HOROVOD_GLOO_IFACE"] = "lo"
    share = len(devices) // slots
    made = []
    for local_rank in range(slots):
        own = {
            names.rank: str(first + local_rank),
            names.local_rank: str(local_rank),
            IMAGENET_METRICS_PORT: str(FIRST_METRICS_PORT + local_rank),
        }
        if share:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(devices[local_rank * share :][:share])
        made.append(common | own)
    return made


def metrics_address(launcher: int) -> str:
    """Return the loopback address where the slots of a launcher serve their metrics.

    One for each process id, so that launchers which share a machine do not meet.

    >>> metrics_address(66_051)
    '127.65.2.3'
    """
    return str(ipaddress.ip_address("127.64.0.0") + launcher)


_log = logging.getLogger(__name__)

DEVICES = Path("/dev")
# The signals that end a pod, which has its own grace period.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def launch(
    command: Sequence[str],
    slots: int,
    join_timeout: float,
    grace: float,
    variables: Mapping[str, str],
) -> int:
    """Run the slots to their end; return the exit code of the first that failed, or 0.

    The rendezvous is waited for, and after a slot has failed, the others have the seconds of
    `grace` to end. The variables are those of the pod, and of its first slot. InputError if the
    command or the environment is wrong, WorkloadError if there is no rendezvous.
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
    if first.awaited and Path(whole[0]).name != TRAIN_PROGRAM:
        who = f"the pod of rank {first.rank}"
        wait_for_port(who, first.awaited, first.host, first.port, join_timeout)
    with tempfile.TemporaryDirectory(dir=environment.scratch) as folder:
        for local_rank, share in enumerate(shares):
            share[IMAGENET_TERMINATION_LOG] = str(Path(folder, str(local_rank)))
        metrics.begin([(share[POD_IP], int(share[IMAGENET_METRICS_PORT])) for share in shares])
        failed = _run(whole, shares, grace, variables)
        local_rank, code = failed or (0, 0)
        # Of the slot that failed first, or of the first slot.
        message = Path(folder, str(local_rank))
        text = f"slot {local_rank} ended with exit code {code}" if failed else ""
        if message.is_file():
            # Another command may write more; Kubernetes keeps the end. Without the half of a
            # character that the cut may have left.
            text = message.read_bytes()[-TERMINATION_MESSAGE_BYTES:].decode(errors="ignore")
        if text:
            leave_message(text, variables)
    return failed[1] if failed else 0


def _run(
    command: Sequence[str],
    shares: Sequence[Mapping[str, str]],
    grace: float,
    variables: Mapping[str, str],
) -> tuple[int, int] | None:
    """Run the slots to their end; return local rank and exit code of the first that failed.

    The others then have the seconds of `grace` to end, and signals are passed on.
    """
    waited = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        wrapped = [sys.executable, "-m", parent_death_signal.__name__, str(os.getpid()), *command]
        # The local ranks of those that have not ended, by process id.
        running = {
            os.posix_spawn(sys.executable, wrapped, share, setsigmask=[]): local_rank
            for local_rank, share in enumerate(shares)
        }
        side = SideProcess.from_environment(variables)
        failed: tuple[int, int] | None = None
        # When the rest is killed; None as long as nothing has failed by itself.
        killing_at: float | None = None
        is_ending = False

        def send(number: int) -> None:
            for process in running:
                os.kill(process, number)

        while running:
            received = (
                signal.sigwaitinfo(waited)
                if killing_at is None
                else signal.sigtimedwait(waited, max(killing_at - time.monotonic(), 0))
            )
            if received is None:
                send(signal.SIGKILL)
                killing_at = None
            elif received.si_signo == signal.SIGCHLD:
                for process, code in reap():
                    if side is not None:
                        side.reaped(process)
                    ended = running.pop(process, None)
                    if ended is None or code == 0 or failed is not None:
                        continue
                    failed = ended, code
                    if running and not is_ending:
                        _log.warning(
                            "slot %d ended with exit code %d; the others follow", ended, code
                        )
                        killing_at = time.monotonic() + grace
                        send(signal.SIGTERM)
            else:
                is_ending = is_ending or received.si_signo in ENDING
                if side is not None and received.si_signo == signal.SIGTERM:
                    side.kill()
                if is_for_children(received):
                    send(received.si_signo)
        if side is not None and failed is None:
            side.finish(waited)
        elif side is not None:
            side.kill()
        return failed
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def find_program(name: str) -> str:
    """Return a command's path: as it is written, beside this program, or on the PATH.

    InputError if there is none.
    """
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=None if "/" in name else beside)
    if found is None:
        raise InputError(f"{name}: there is no such program to run in the slots")
    return found


def visible_devices(variables: Mapping[str, str], folder: Path) -> list[str]:
    """Return the GPUs that this pod may use, as CUDA_VISIBLE_DEVICES calls them, which says all.

    Without it, Kubernetes gives a container the device files of its GPUs, which CUDA counts from 0.
    """
    if "CUDA_VISIBLE_DEVICES" in variables:
        return [
            part.strip() for part in variables["CUDA_VISIBLE_DEVICES"].split(",") if part.strip()
        ]
    files = [path for path in folder.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(number) for number in range(len(files))]
