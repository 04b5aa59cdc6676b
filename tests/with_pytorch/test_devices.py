"""PyTorch's GPU; the build and the GPU are fakes, because there is no GPU."""

import pytest
import torch

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch.framework import bfloat16_warning, take_device
from imagenet_workloads.train.devices import Capability
from support.sentences import says

# Of the wheel in constraints/pytorch.txt.
BUILD = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


def fake_gpus(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: Capability
) -> list[torch.device]:
    """Play a machine with two GPUs, of which the second has a name; the list gets what is taken."""
    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: (None, name)[device.index])
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda device: (None, capability)[device.index]
    )
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: BUILD)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    return taken


def test_the_gpu_of_the_option_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = fake_gpus(monkeypatch, "H100", (9, 0))
    assert take_device((1,)) == torch.device("cuda", 1)
    assert taken == [torch.device("cuda", 1)]


@pytest.mark.parametrize(
    ("name", "capability", "facts"),
    [
        (
            "V100",
            (7, 0),
            [
                "V100 (7.0) is older",
                "sm_75 sm_80 sm_86 sm_90",
                "--framework MXNet",
                "another image",
            ],
        ),
        ("R100", (13, 0), ["R100 (13.0) is newer", "use a newer PyTorch", "another image"]),
    ],
)
def test_a_gpu_without_code_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: Capability, facts: list[str]
) -> None:
    taken = fake_gpus(monkeypatch, name, capability)
    with pytest.raises(InputError, match=says(*facts)):
        take_device((1,))
    assert taken == []


def test_without_the_option_it_is_the_cpu() -> None:
    assert take_device(()) == torch.device("cpu")


@pytest.mark.parametrize(("name", "capability"), [("T4", (7, 5)), ("H100", (9, 0))])
def test_a_gpu_without_bfloat16_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: Capability
) -> None:
    fake_gpus(monkeypatch, name, capability)
    said = bfloat16_warning(torch.device("cuda", 1))
    assert (said is not None and "T4 (7.5) has no instructions" in said) is (name == "T4")
