"""GPUs that MXNet has no code for are refused; a driver is played, because there is no GPU."""

import ctypes
from typing import Any

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import framework
from imagenet_workloads.train.devices import Capability


class Driver:
    """NVIDIA's driver with one GPU."""

    def __init__(self, name: str, capability: Capability) -> None:
        self._name, self._capability = name, capability

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:  # noqa: N802
        device._obj.value = 7
        return 0 if number == 0 else 101

    def cuDeviceGetName(self, name: Any, size: int, device: ctypes.c_int) -> int:  # noqa: N802
        name.value = self._name.encode()
        return 0 if device.value == 7 else 101

    def cuDeviceGetAttribute(self, found: Any, number: int, device: Any) -> int:  # noqa: N802
        found._obj.value = dict(zip((75, 76), self._capability, strict=True))[number]
        return 0


def play(monkeypatch: pytest.MonkeyPatch, name: str, capability: Capability) -> None:
    driver = Driver(name, capability)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: driver)


@pytest.mark.parametrize("capability", [(5, 2), (7, 5), (8, 0), (8, 9)])
def test_a_gpu_of_the_builds_generations_passes(
    monkeypatch: pytest.MonkeyPatch, capability: Capability
) -> None:
    play(monkeypatch, "GPU", capability)
    framework.require_gpus([0])
    assert framework.describe(0) == ("GPU", capability)


@pytest.mark.parametrize(
    ("name", "capability", "message"),
    [
        ("H100", (9, 0), "H100 (9.0) is newer than MXNet 1.9.1's code, sm_50 sm_60 sm_70"),
        ("H100", (9, 0), "write --framework PyTorch (framework: PyTorch), or another image"),
        ("K80", (3, 7), "K80 (3.7) is older than MXNet 1.9.1's code"),
    ],
)
def test_a_gpu_without_code_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: Capability, message: str
) -> None:
    play(monkeypatch, name, capability)
    with pytest.raises(InputError) as error:
        framework.require_gpus([0])
    assert message in str(error.value)


def test_a_gpu_that_no_driver_describes_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "GPU", (9, 0))
    assert framework.describe(1) is None

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    framework.require_gpus([0])
