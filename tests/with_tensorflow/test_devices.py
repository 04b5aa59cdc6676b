"""TensorFlow's GPUs; the build and the GPUs are fakes, because there is no GPU."""

from typing import Any

import pytest
import tensorflow as tf

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import framework
from support.sentences import says

# Of the wheel with CUDA in constraints/tensorflow-gpu.txt.
BUILD = {"cuda_compute_capabilities": ["sm_50", "sm_60", "sm_70", "sm_75", "compute_80"]}
K80 = {"device_name": "K80", "compute_capability": (3, 7)}
H100 = {"device_name": "H100", "compute_capability": (9, 0)}


def fake_gpus(
    monkeypatch: pytest.MonkeyPatch, build: dict[str, Any], *gpus: dict[str, Any]
) -> list[int]:
    """Play a build on a machine with GPUs; the list gets the numbers of those that are taken."""
    devices = [tf.config.PhysicalDevice(str(number), "GPU") for number in range(len(gpus))]
    taken: list[int] = []

    def take(chosen: list[Any], kind: str) -> None:
        taken.extend(int(one.name) for one in chosen)

    # The number of threads is that of a process, which has begun.
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices)
    monkeypatch.setattr(tf.config, "set_visible_devices", take)
    details = lambda device: gpus[int(device.name)]  # noqa: E731
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    return taken


def test_only_the_gpus_of_the_options_are_taken_and_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = fake_gpus(monkeypatch, BUILD, K80, H100)
    framework.take_devices((1,))
    assert taken == [1]
    framework.take_devices(())
    assert taken == [1]


@pytest.mark.parametrize(
    ("gpu", "build", "facts"),
    [
        (
            K80,
            BUILD,
            ["K80 (3.7) is older", "sm_50 sm_60 sm_70", "use a newer GPU", "another image"],
        ),
        (
            H100,
            {"cuda_compute_capabilities": ["sm_80"]},
            ["H100 (9.0) is newer", "sm_80; ", "write --framework PyTorch"],
        ),
    ],
)
def test_a_gpu_without_code_is_refused(
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], build: dict[str, Any], facts: list[str]
) -> None:
    taken = fake_gpus(monkeypatch, build, gpu)
    with pytest.raises(InputError, match=says(*facts)):
        framework.take_devices((0,))
    assert taken == []


@pytest.mark.parametrize(
    ("gpu", "build"),
    [({}, BUILD), (K80, {"is_rocm_build": True})],
    ids=["a GPU without a description", "a build without a list"],
)
def test_what_cannot_be_compared_passes(
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], build: dict[str, Any]
) -> None:
    taken = fake_gpus(monkeypatch, build, gpu)
    framework.take_devices((0,))
    assert taken == [0]


def test_a_missing_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(monkeypatch, BUILD, H100)
    with pytest.raises(InputError, match="there is no GPU 1, TensorFlow sees 1"):
        framework.take_devices((0, 1))
