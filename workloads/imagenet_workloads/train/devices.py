"""What a device can run: a build's code, which would fail at its first kernel, and bfloat16.

A framework asks before it trains. Pure; imports no framework.
"""

import re
from collections.abc import Sequence

from imagenet_spec.program.train import BFLOAT16_CPU_FLAGS
from imagenet_workloads.errors import InputError

Capability = tuple[int, int]

_NAME = re.compile(r"(sm|compute)_(\d+)(\d)[a-z]?")
_FIRST_WITH_BFLOAT16 = (8, 0)
_BFLOAT16_OPTION = "--dtype bfloat16 (spec.training.precision)"


def require_code(
    owner: str, gpu: str, capability: Capability, names: Sequence[str], older: str, newer: str
) -> None:
    """Check that a build has code for a GPU; InputError if not.

    Builds name their code as CUDA does: `sm_90` is machine code for compute capability 9.0, which
    also runs on a greater minor number; `compute_90` is PTX, which runs on any later GPU. The
    message names the `owner`, such as MXNet 1.9.1, and what to do if the GPU is `older` or `newer`
    than the code.
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


def bfloat16_cpu_warning(cpuinfo: str) -> str | None:
    """Warn that a processor lacks bfloat16, by /proc/cpuinfo; None if it has it, or may have it."""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None or BFLOAT16_CPU_FLAGS & set(flags[1].split()):
        return None
    return (
        f"{_BFLOAT16_OPTION}: this processor has no instructions for bfloat16, which can make "
        "training over 100 times slower than in float32; write float32"
    )


def bfloat16_gpu_warning(name: str, capability: Capability) -> str | None:
    """Warn that a GPU lacks bfloat16; None if it has it."""
    if capability >= _FIRST_WITH_BFLOAT16:
        return None
    major, minor = capability
    return (
        f"{_BFLOAT16_OPTION}: {name} ({major}.{minor}) has no instructions for bfloat16, which "
        "makes training slow; write float16"
    )
