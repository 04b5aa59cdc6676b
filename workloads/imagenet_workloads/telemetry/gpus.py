"""The utilization of a worker's GPUs, by NVML, the library of NVIDIA's driver.

A container with GPUs has the library of its node. Its bindings, nvidia-ml-py, are in the images for
GPUs. Without one of the two there is no figure, and training goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean


def utilization_of(
    numbers: Sequence[int], variables: Mapping[str, str]
) -> Callable[[], float | None]:
    """Return what measures the mean utilization of GPUs, 0..1; it returns None if it cannot.

    The numbers are among the GPUs that the process may use: NVML itself does not follow
    CUDA_VISIBLE_DEVICES.
    """
    try:
        import pynvml
    except ImportError:
        return lambda: None
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    names = None if visible is None else [name.strip() for name in visible.split(",")]
    try:
        pynvml.nvmlInit()
        handles = []
        for number in numbers:
            name = str(number) if names is None else names[number]
            if name.isdigit():
                handles.append(pynvml.nvmlDeviceGetHandleByIndex(int(name)))
            else:
                handles.append(pynvml.nvmlDeviceGetHandleByUUID(name))
    except (pynvml.NVMLError, IndexError):
        return lambda: None

    def measured() -> float | None:
        try:
            return fmean(pynvml.nvmlDeviceGetUtilizationRates(one).gpu for one in handles) / 100
        except pynvml.NVMLError:  # a part of a GPU has none
            return None

    return measured
