"""A worker loads before it waits, and says what to change if it lacks memory."""

import gc
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from imagenet_spec.frameworks.descriptor import Framework, Images
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.train import worker
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.description import FrameworkDescription
from imagenet_workloads.train.worker import explain_memory

HAS = Framework("Plain", (), {}, {}, Images("plain:1", "plain:1"))
PLAIN = FrameworkDescription(HAS, "plain", "frameworks.plain", "kv_store", {})
MIRRORING = replace(PLAIN, has=HAS._replace(memory_variable="MIRROR=1"))
CHECKPOINTING = replace(PLAIN, has=HAS._replace(memory_option="activation_checkpointing"))

FRAMEWORK = """
import gc
was_collecting = gc.isenabled()
def create(options, rendezvous, folder, identity):
    assert not gc.isenabled()
"""


@pytest.fixture
def light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkDescription]:
    package = tmp_path / "light"
    (package / "strategies").mkdir(parents=True)
    (package / "framework.py").write_text(FRAMEWORK)
    (package / "strategies/alone.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    strategies = {"local": "alone"}
    yield FrameworkDescription(HAS, "light", "light", "kv_store", strategies)
    for name in [name for name in sys.modules if name.partition(".")[0] == "light"]:
        del sys.modules[name]
    gc.unfreeze()


class WaitingError(Exception):
    """The wait for the others has begun."""


class Others:
    def wait(self, timeout: float) -> NoReturn:
        raise WaitingError


def test_a_worker_loads_its_framework_and_its_strategy_before_it_waits(
    light: FrameworkDescription, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "find_rendezvous", lambda *_: Others())
    monkeypatch.setattr(Termination, "listen", lambda _: None)
    with pytest.raises(WaitingError):
        worker.run(parse(["--output", str(tmp_path / "out")], {}), light, {})
    assert "light.strategies.alone" in sys.modules
    # What stays is not looked at by the collector, neither now nor later.
    assert not sys.modules["light.framework"].was_collecting
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


class ResourceExhaustedError(Exception):
    """TensorFlow's, by its name."""


@pytest.mark.parametrize(
    ("error", "gpus", "where"),
    [
        (MemoryError(), "", "this machine"),
        (ResourceExhaustedError("OOM when allocating tensor on GPU:0"), "0", "the GPU"),
        (RuntimeError("cudaMalloc retry failed: out of memory\nStack trace:"), "0,1", "the GPU"),
        (RuntimeError("std::bad_alloc"), "", "this machine"),
        (RuntimeError("MXNetError: Failed to allocate CPU Memory"), "", "this machine"),
        (
            RuntimeError(
                "OpenCV(4.9.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate "
                "150528 bytes in function 'OutOfMemoryError'"
            ),
            "",
            "this machine",
        ),
    ],
)
def test_a_lack_of_memory_names_the_batch(error: Exception, gpus: str, where: str) -> None:
    options = parse(["--batch-size", "256", "--gpus", gpus], {})
    said = explain_memory(error, options, PLAIN)
    assert said is not None
    assert said.startswith(f"{where} has too little memory for 256 images a step")
    assert "--macrobatch-size" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("description", "given", "remedy"),
    [
        (PLAIN, "0", ""),
        (MIRRORING, "0", "MIRROR=1 in the environment"),
        (
            CHECKPOINTING,
            "0",
            "--activation-checkpointing 1 (spec.training.activationCheckpointing: true)",
        ),
        (CHECKPOINTING, "1", ""),
    ],
)
def test_a_lack_of_memory_names_what_the_framework_can_do_without(
    description: FrameworkDescription, given: str, remedy: str
) -> None:
    options = parse(["--activation-checkpointing", given], {})
    said = explain_memory(MemoryError(), options, description)
    assert said is not None
    tail = f"; {remedy} may save some more, but is slower" if remedy else ""
    assert said.endswith(f"--macrobatch-size adds up the smaller steps{tail}")


def test_another_error_is_not_explained() -> None:
    error = RuntimeError("connection reset")
    assert explain_memory(error, parse([], {}), PLAIN) is None
