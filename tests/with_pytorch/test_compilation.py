"""torch.compile: the same training, and one sentence where there is no compiler."""

import logging
import tempfile
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation, compile_cache
from imagenet_workloads.frameworks.pytorch.compilation import CompiledNetwork
from imagenet_workloads.train.networks import NetworkRequest
from support.ddp_processes import DdpProcesses
from support.pytorch_learners import CLASSES, SHAPE, batch, learner, trained

MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
COMPILED = partial(CompiledNetwork, is_required=True)
BY_DEFAULT = partial(CompiledNetwork, is_required=False)


def test_a_compiled_network_learns_and_validates_the_same() -> None:
    torch._dynamo.reset()
    counters.clear()
    found, expected = trained(2, learner(MLP, compiled=COMPILED)), trained(2, learner(MLP))
    assert counters["stats"]["unique_graphs"] == 1
    # Names of a compiled module would have a prefix.
    values = found.network.state_dict()
    torch.testing.assert_close(dict(values), dict(expected.network.state_dict()))
    seen = [one.predict(batch(5)).probabilities for one in (found, expected)]
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-4)


def failing(graph: object, inputs: object) -> NoReturn:
    """A compiler of torch.compile that fails."""
    raise RuntimeError("no such instruction\nand more")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that cannot be compiled, which is noticed at the first batch."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=failing))


def test_by_default_a_network_that_cannot_be_compiled_trains_as_it_is(
    broken: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found, expected = trained(2, learner(MLP, compiled=BY_DEFAULT)), trained(2, learner(MLP))
    torch.testing.assert_close(
        dict(found.network.state_dict()), dict(expected.network.state_dict())
    )
    assert (
        found.predict(batch(5)).probabilities.tolist()
        == expected.predict(batch(5)).probabilities.tolist()
    )
    [said] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "no such instruction" in said
    assert "training.compile: false" in said
    assert (found.compiled, expected.compiled) == (False, None)
    found.snapshot().save(tmp_path)
    # Later attempts begin without compiled code.
    assert not compilation.choose(None, tmp_path, torch.device("cuda"), certain=False)


def test_a_network_and_its_average_fall_back_together_with_one_warning(
    broken: None, caplog: pytest.LogCaptureFixture
) -> None:
    found = trained(2, learner(MLP, "--ema-decay", "0.5", compiled=BY_DEFAULT))
    expected = trained(2, learner(MLP, "--ema-decay", "0.5"))
    assert (
        found.predict(batch(5)).probabilities.tolist()
        == expected.predict(batch(5)).probabilities.tolist()
    )
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1


def test_what_a_user_asked_for_is_compiled_or_an_error(broken: None) -> None:
    with pytest.raises(BackendCompilerFailed, match="no such instruction"):
        trained(1, learner(MLP, compiled=COMPILED))


def test_by_default_a_missing_compiler_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compilation.choose(None, None, torch.device("cuda"), certain=False) is False
    [said] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "no-such-compiler" in said


def test_a_folder_of_another_user_is_not_used_for_what_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = compile_cache.folder_of_this_user()
    assert own.stat().st_mode & 0o777 == 0o700
    assert compile_cache.folder_of_this_user() == own
    own.chmod(0o777)
    assert compile_cache.folder_of_this_user().stat().st_mode & 0o777 == 0o700
    assert compile_cache.folder_of_this_user() != own


@pytest.mark.parametrize(
    ("asked", "recorded", "device", "certain", "expected"),
    [
        (None, None, "cuda", False, True),
        (None, None, "cuda", True, None),
        (None, None, "cpu", False, None),
        (True, None, "cpu", False, True),
        (False, None, "cuda", False, None),
        (None, True, "cpu", False, True),
        # It went on without.
        (None, False, "cuda", False, False),
        # It began before compiling was the default.
        (None, "absent", "cuda", False, None),
        (True, False, "cuda", False, True),
    ],
)
def test_a_training_is_compiled_on_a_gpu_and_goes_on_as_it_began(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: bool | None,
    recorded: bool | str | None,
    device: str,
    certain: bool,
    expected: bool | None,
) -> None:
    monkeypatch.setattr(compilation, "missing_compiler", lambda device: None)
    if isinstance(recorded, bool):
        compilation.record(tmp_path, recorded)
    resumed = None if recorded is None else tmp_path
    found = compilation.choose(asked, resumed, torch.device(device), certain=certain)
    assert found is expected


# Two batches an update: the first pass, which is compiled first, exchanges nothing.
TWO_PROCESSES = (
    *("--benchmark", "1", "--num-examples", "128", "--num-classes", "10", "--network", "mlp"),
    *("--image-shape", "3,28,28", "--batch-size", "8", "--macrobatch-size", "32"),
    *("--num-epochs", "1", "--warmup-epochs", "0", "--lr", "0.1", "--wd", "0"),
)


def test_compiled_processes_exchange_the_same_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))

    def train(name: str, *more: str) -> dict[str, torch.Tensor]:
        output = tmp_path / name
        options = [*TWO_PROCESSES, "--output", str(output), *more]
        with DdpProcesses(tmp_path / f"members-{name}", options) as running:
            assert set(running.wait().values()) == {0}, running.output("pod-0")
        return load_file(output / "attempts/r0/model-0001.safetensors")

    found = train("found", "--compile", "1")
    assert list((tmp_path / "compiled").rglob("*.so"))
    expected = train("expected")
    torch.testing.assert_close(found, expected)
    found = train("recomputed", "--compile", "1", "--activation-checkpointing", "1")
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("device", "variable"), [("cpu", "CXX"), ("cuda", "CC")])
def test_a_missing_compiler_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, device: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler")
    message = f"calls the compiler no-such-compiler, which is missing here; .* set {variable}"
    with pytest.raises(InputError, match=message):
        compilation.require_compiler(torch.device(device))
