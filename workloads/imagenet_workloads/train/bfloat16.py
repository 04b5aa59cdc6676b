"""Whether a device has instructions for bfloat16. Without them it computes far slower.

Pure; a framework logs the warning before it trains.
"""

import re

from imagenet_spec.program.train import BFLOAT16_CPU_FLAGS
from imagenet_workloads.train.gpu_code import Capability

_FIRST_CAPABILITY = (8, 0)
_OPTION = "--dtype bfloat16 (spec.training.precision)"


def cpu_warning(cpuinfo: str) -> str | None:
    """Return the warning for a processor; None if it has the instructions, or may have them.

    Args:
        cpuinfo: the content of /proc/cpuinfo.
    """
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None or BFLOAT16_CPU_FLAGS & set(flags[1].split()):
        return None
    return (
        f"{_OPTION}: this processor has no instructions for bfloat16, which can make training over "
        "100 times slower than in float32; write float32"
    )


def gpu_warning(name: str, capability: Capability) -> str | None:
    """Return the warning for a GPU by its compute capability; None if it has the instructions."""
    if capability >= _FIRST_CAPABILITY:
        return None
    major, minor = capability
    return (
        f"{_OPTION}: {name} ({major}.{minor}) has no instructions for bfloat16, which makes "
        "training slow; write float16"
    )
