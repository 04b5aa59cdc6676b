"""Refuses GPUs that MXNet 1.9.1 has no code for, before its first kernel fails.

MXNet names neither its code nor a GPU's compute capability. The code is that of the wheel for CUDA
11.2, as cuobjdump lists it (docs/images.md); the driver tells the capability. No MXNet.
"""

import ctypes
from collections.abc import Iterable

from imagenet_spec.frameworks.mxnet import MXNET
from imagenet_workloads.train.devices import Capability, require_code

CODE = tuple(f"sm_{major}{minor}" for major, minor in MXNET.gpu_code.machine_code)

# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
_MAJOR, _MINOR = 75, 76
_NAME_BYTES = 256


def require_gpus(numbers: Iterable[int]) -> None:
    """Check the GPUs with these numbers; one that the driver does not describe passes.

    Raises:
        InputError: MXNet has no code for one.
    """
    for number in numbers:
        if (found := describe(number)) is not None:
            require_code(
                "MXNet 1.9.1",
                *found,
                CODE,
                older="use a newer GPU",
                newer="write --framework PyTorch (framework: PyTorch)",
            )


def describe(number: int) -> tuple[str, Capability] | None:
    """Return name and compute capability of a GPU by NVIDIA's driver; None if there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = (ctypes.c_int() for _ in range(3))
    name = ctypes.create_string_buffer(_NAME_BYTES)
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDeviceGetName(name, _NAME_BYTES, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    )
    if failed:
        return None
    return name.value.decode(errors="replace"), (major.value, minor.value)
