"""Which GPUs a build has code for, and which devices are too slow for bfloat16."""

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.devices import (
    Capability,
    bfloat16_cpu_warning,
    bfloat16_gpu_warning,
    require_code,
)
from support.sentences import assert_says

# Of the wheel in constraints/pytorch.txt.
REMEDIES = {"older": "write --framework MXNet (framework: MXNet)", "newer": "use a newer PyTorch"}
BUILD = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (9, 0), (10, 3), (12, 1)])
def test_machine_code_runs_on_its_generation(capability: Capability) -> None:
    require_code("this PyTorch", "GPU", capability, BUILD, **REMEDIES)


def test_ptx_runs_on_any_later_gpu() -> None:
    require_code("this PyTorch", "GPU", (13, 0), (*BUILD, "compute_120"), **REMEDIES)


@pytest.mark.parametrize(
    ("gpu", "capability", "names", "message"),
    [
        ("V100", (7, 0), BUILD, "V100 (7.0) is older than this PyTorch's code, sm_75 sm_80"),
        ("V100", (7, 0), BUILD, "write --framework MXNet (framework: MXNet), or another image"),
        ("R100", (13, 0), BUILD, "R100 (13.0) is newer than this PyTorch's code"),
        ("H100", (9, 0), (), "code, none; use a newer PyTorch, or another image"),
    ],
)
def test_a_gpu_without_code_is_refused(
    gpu: str, capability: Capability, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError) as error:
        require_code("this PyTorch", gpu, capability, names, **REMEDIES)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("cpuinfo", "is_slow"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f\n\nprocessor\t: 1\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx512_bf16 avx512f\n", False),
        ("flags\t\t: fpu amx_bf16\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd\n", True),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", False),
        ("", False),
    ],
)
def test_a_processor_without_instructions_is_named(cpuinfo: str, is_slow: bool) -> None:
    said = bfloat16_cpu_warning(cpuinfo)
    assert (said is not None) is is_slow
    if said is not None:
        assert_says(said, "--dtype bfloat16", "spec.training.precision", "processor has no")


@pytest.mark.parametrize(
    ("capability", "is_slow"), [((7, 5), True), ((8, 0), False), ((9, 0), False)]
)
def test_a_gpu_without_instructions_is_named(capability: Capability, is_slow: bool) -> None:
    said = bfloat16_gpu_warning("T4", capability)
    assert (said is not None) is is_slow
    if said is not None:
        facts = ("spec.training.precision", "T4 (7.5) has no instructions", "slow", "float16")
        assert_says(said, "--dtype bfloat16", *facts)
