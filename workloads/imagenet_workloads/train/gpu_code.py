"""Whether a build of a framework has code for a GPU, before it fails at its first kernel.

Builds name their code as CUDA does: `sm_90` is machine code for compute capability 9.0, which also
runs on a greater minor number; `compute_90` is PTX, which runs on any later GPU. No framework.
"""

import re
from collections.abc import Sequence

from imagenet_workloads.errors import InputError

Capability = tuple[int, int]

_NAME = re.compile(r"(sm|compute)_(\d+)(\d)[a-z]?")


def require_code(
    owner: str, gpu: str, capability: Capability, names: Sequence[str], older: str, newer: str
) -> None:
    """Check the code of a build.

    Args:
        owner: the build, for the message: `MXNet 1.9.1`.
        gpu: the name of the GPU, for the message.
        capability: its compute capability.
        names: of the build's code.
        older: what to do if the GPU is older than the code.
        newer: what to do if it is newer.

    Raises:
        InputError: it has no code for the GPU.
    """
    found = [match.groups() for name in names if (match := _NAME.fullmatch(name))]
    machine = [(int(major), int(minor)) for kind, major, minor in found if kind == "sm"]
    ptx = [(int(major), int(minor)) for kind, major, minor in found if kind == "compute"]
    major, minor = capability
    if any(own == major and least <= minor for own, least in machine):
        return
    if any(oldest <= capability for oldest in ptx):
        return
    oldest = min((*machine, *ptx), default=None)
    is_older = oldest is not None and capability < oldest
    raise InputError(
        f"--gpus (workers.gpus): {gpu} ({major}.{minor}) is {'older' if is_older else 'newer'} "
        f"than {owner}'s code, {' '.join(names) or 'none'}; {older if is_older else newer}, or "
        "another image"
    )
