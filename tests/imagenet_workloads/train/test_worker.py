"""A worker that lacks memory says what to change."""

import pytest

from imagenet_workloads.train.options.command_line import parse
from imagenet_workloads.train.worker import explain_memory


class ResourceExhaustedError(Exception):
    """TensorFlow's, by its name."""


@pytest.mark.parametrize(
    ("error", "gpus", "where"),
    [
        (MemoryError(), "", "this machine"),
        (ResourceExhaustedError("OOM when allocating tensor on GPU:0"), "0", "the GPU"),
        (RuntimeError("cudaMalloc retry failed: out of memory\nStack trace:"), "0,1", "the GPU"),
        (RuntimeError("std::bad_alloc"), "", "this machine"),
    ],
)
def test_a_lack_of_memory_names_the_batch(error: Exception, gpus: str, where: str) -> None:
    options = parse(["--batch-size", "256", "--gpus", gpus], {})
    said = explain_memory(error, options, None)
    assert said is not None
    assert said.startswith(f"{where} has too little memory for 256 images a step")
    assert "--macrobatch-size" in said
    assert "\n" not in said


def test_a_lack_of_memory_names_what_the_framework_can_do_without() -> None:
    options = parse([], {})
    bare = explain_memory(MemoryError(), options, None)
    said = explain_memory(MemoryError(), options, "MIRROR=1")
    assert said == f"{bare}; MIRROR=1 in the environment may save some more, but is slower"


def test_another_error_is_not_explained() -> None:
    error = RuntimeError("connection reset")
    assert explain_memory(error, parse([], {}), "MIRROR=1") is None
