"""Which devices are too slow for bfloat16."""

import pytest

from imagenet_workloads.train.bfloat16 import cpu_warning, gpu_warning
from imagenet_workloads.train.gpu_code import Capability


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
    said = cpu_warning(cpuinfo)
    assert (said is not None) is is_slow
    if said is not None:
        assert said.startswith("--dtype bfloat16 (spec.training.precision): this processor has no")


@pytest.mark.parametrize(
    ("capability", "said"),
    [
        (
            (7, 5),
            "--dtype bfloat16 (spec.training.precision): T4 (7.5) has no instructions for "
            "bfloat16, which makes training slow; write float16",
        ),
        ((8, 0), None),
        ((9, 0), None),
    ],
)
def test_a_gpu_without_instructions_is_named(capability: Capability, said: str | None) -> None:
    assert gpu_warning("T4", capability) == said
