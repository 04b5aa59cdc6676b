"""The environment of each of a pod's slots: its place among all, and its share of the pod.

Pure; `launcher` starts the slots with it.
"""

import ipaddress
from collections.abc import Mapping, Sequence

from imagenet_spec.names import IMAGENET_CPUS, IMAGENET_METRICS_PORT, POD_IP
from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous import number
from imagenet_workloads.rendezvous.slot import MOST_PROCESSES, SlotVariables
from imagenet_workloads.rendezvous.waiting import is_loopback

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
    first = _first_rank(variables, names, slots)
    if len(devices) % slots:
        raise InputError(
            f"{slots} slots cannot share {len(devices)} GPUs equally; name some in "
            "CUDA_VISIBLE_DEVICES, or none to train on the CPU"
        )
    common = dict(variables) | _common(variables, slots, launcher)
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


def _first_rank(variables: Mapping[str, str], names: SlotVariables, slots: int) -> int:
    """Return the rank of the pod's first slot.

    Raises:
        InputError: the pod's variables are wrong.
    """
    size = number(variables, names.size, slots, MOST_PROCESSES)
    first = number(variables, names.rank, 0, size - slots)
    if number(variables, names.local_size, 1, size) != slots:
        raise InputError(
            f"--slots is {slots}, but {names.local_size} is {variables[names.local_size]}: "
            "write the same number"
        )
    return first


def metrics_address(launcher: int) -> str:
    """Return the loopback address where the slots of a launcher serve their metrics.

    One for each process id, so that launchers which share a machine do not meet.

    >>> metrics_address(66_051)
    '127.65.2.3'
    """
    return str(ipaddress.ip_address("127.64.0.0") + launcher)


def _common(variables: Mapping[str, str], slots: int, launcher: int) -> dict[str, str]:
    changed = {POD_IP: metrics_address(launcher)}
    for name in ("OMP_NUM_THREADS", IMAGENET_CPUS):
        if variables.get(name, "").isdecimal():
            changed[name] = str(max(int(variables[name]) // slots, 1))
    if "HOROVOD_GLOO_IFACE" not in variables and is_loopback(variables.get(POD_IP, "")):
        # All pods are on this machine, whose own name may lead to an address that it cannot reach.
        changed["HOROVOD_GLOO_IFACE"] = "lo"
    return changed
