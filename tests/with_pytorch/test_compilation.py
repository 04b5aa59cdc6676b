"""torch.compile: the same training, and one sentence where there is no compiler."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation
from imagenet_workloads.train.networks import NetworkRequest
from support.ddp_processes import DdpProcesses
from support.pytorch_learners import CLASSES, SHAPE, learner, trained

MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
CPU = torch.device("cpu")


def test_a_compiled_network_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    compilation.check(CPU)
    found = trained(2, learner(MLP, compiled=compilation.compiled))
    expected = trained(2, learner(MLP))
    assert list(tmp_path.rglob("*.so"))
    # Names of a compiled module would have a prefix.
    values = found.network.state_dict()
    torch.testing.assert_close(dict(values), dict(expected.network.state_dict()))


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
        compilation.check(torch.device(device))
