"""torch.compile: the same training, and one sentence where there is no compiler."""

from pathlib import Path

import pytest
import torch

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation
from imagenet_workloads.train.networks import NetworkRequest
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


@pytest.mark.parametrize(("device", "variable"), [("cpu", "CXX"), ("cuda", "CC")])
def test_a_missing_compiler_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, device: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler")
    message = f"calls the compiler no-such-compiler, which is missing here; .* set {variable}"
    with pytest.raises(InputError, match=message):
        compilation.check(torch.device(device))
