"""The machine's GPUs, which pods get by CUDA_VISIBLE_DEVICES.

The capacity is `--gpus N`, else imagenetctl's own CUDA_VISIBLE_DEVICES, else the list of
`nvidia-smi`, else the device nodes in /dev.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from imagenet_operator.clusters.interface import LocalError

VISIBLE = "CUDA_VISIBLE_DEVICES"
RESOURCE = "nvidia.com/gpu"


class Gpus:
    """Allocates GPUs to pods.

    Args:
        devices: Identifiers for CUDA_VISIBLE_DEVICES, usually "0", "1", ….
    """

    def __init__(self, devices: tuple[str, ...]) -> None:
        self._devices = devices
        self._holders: dict[str, str] = {}

    @property
    def capacity(self) -> int:
        """The number of GPUs."""
        return len(self._devices)

    def take(self, holder: str, count: int) -> tuple[str, ...] | None:
        """Allocate GPUs to a pod, all or none.

        Returns:
            Their identifiers; None if too few are free.
        """
        free = [device for device in self._devices if device not in self._holders]
        if len(free) < count:
            return None
        taken = tuple(free[:count])
        self._holders.update(dict.fromkeys(taken, holder))
        return taken

    def release(self, holder: str) -> None:
        """Release a pod's GPUs."""
        self._holders = {device: name for device, name in self._holders.items() if name != holder}


def find(requested: int | None, environment: Mapping[str, str], devices: Path) -> tuple[str, ...]:
    """Return the GPUs that a run may use.

    Args:
        requested: The value of `--gpus`, or None.
        environment: The environment of imagenetctl.
        devices: The folder of the device nodes, /dev.

    Raises:
        LocalError: More are requested than the environment allows.
    """
    visible = environment.get(VISIBLE)
    if visible is None:
        return _detect(devices) if requested is None else _numbered(requested)
    allowed = _split(visible)
    if requested is None:
        return allowed
    if requested > len(allowed):
        raise LocalError(
            f"--gpus {requested} is more than {VISIBLE}={visible} allows ({len(allowed)}); "
            "change one of the two"
        )
    return allowed[:requested]


def _split(visible: str) -> tuple[str, ...]:
    """Return the devices of a CUDA_VISIBLE_DEVICES value; "" and "-1" hide all."""
    names = (name.strip() for name in visible.split(","))
    return tuple(name for name in names if name and name != "-1")


def _detect(devices: Path) -> tuple[str, ...]:
    """Count GPUs by nvidia-smi, or by the device nodes if it is missing."""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        # One line "GPU 0: NAME (UUID: …)" a GPU; its MIG devices are indented below it.
        count = len(re.findall(r"^GPU \d+:", listing, re.MULTILINE))
    except (OSError, subprocess.SubprocessError):
        nodes = devices.iterdir() if devices.is_dir() else iter(())
        count = sum(re.fullmatch(r"nvidia\d+", node.name) is not None for node in nodes)
    return _numbered(count)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(str(index) for index in range(count))
