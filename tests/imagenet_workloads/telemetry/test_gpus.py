"""The utilization of GPUs, by NVIDIA's bindings and a stand-in for the driver's library."""

import ctypes
import sys
from typing import Any

import pynvml
import pytest

from imagenet_workloads.telemetry.gpus import utilization_of


class Driver:
    """The functions of NVML for GPUs with an index and a UUID each.

    Attributes:
        busy: Percent of each GPU; None if it does not say it.
    """

    def __init__(self, busy: dict[str, int | None]) -> None:
        self.busy = busy

    def nvmlInitWithFlags(self, flags: int) -> int:  # noqa: N802 - the driver's name
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        return self._find(index.value, handle)

    def nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:  # noqa: N802
        names = list(self.busy)
        name = uuid.value.decode()
        return self._find(names.index(name) if name in names else len(names), handle)

    def _find(self, index: int, handle: Any) -> int:
        if index >= len(self.busy):
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        # No handle is 0, which is none.
        pointer = ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))
        pointer[0] = ctypes.c_void_p(index + 1)
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:  # noqa: N802
        number = ctypes.cast(handle, ctypes.c_void_p).value
        assert number is not None
        percent = list(self.busy.values())[number - 1]
        if percent is None:
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        rates._obj.gpu = percent
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver({"GPU-a": 90, "GPU-b": 50, "GPU-c": 10})
    monkeypatch.setattr(pynvml, "nvmlLib", found)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return found


@pytest.mark.parametrize(
    ("numbers", "visible", "expected"),
    [
        ((0,), None, 0.9),
        ((0, 1), None, 0.7),
        ((0, 1), "2,1", 0.3),
        ((1,), "GPU-a, GPU-c", 0.1),
        ((0,), "GPU-of-another-node", None),
        ((7,), None, None),
        ((1,), "0", None),
    ],
)
def test_the_mean_of_the_gpus_of_this_process(
    numbers: tuple[int, ...], visible: str | None, expected: float | None, driver: Driver
) -> None:
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert utilization_of(numbers, variables)() == pytest.approx(expected)


def test_it_is_measured_each_time_and_may_fail_later(driver: Driver) -> None:
    measure = utilization_of((0,), {})
    found = []
    for percent in (0, 100, None, 30):
        driver.busy["GPU-a"] = percent
        found.append(measure())
    assert found == [0.0, 1.0, None, 0.3]


def test_a_machine_without_the_driver_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", missing)
    assert utilization_of((0,), {})() is None


def test_an_environment_without_the_bindings_has_no_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert utilization_of((0,), {})() is None
