"""What MXNet wrote into a file comes back, and nothing else does."""

from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.checkpoint_files import load_parameters
from imagenet_workloads.frameworks.mxnet.framework import MXNetLearner
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies.single import Single
from imagenet_workloads.train.networks import NetworkRequest

SHAPE = (1, 4, 4)


def test_mxnets_own_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "p-0001.params"
    mx.nd.save(str(path), {"arg:w": mx.nd.ones(2), "aux:m": mx.nd.zeros(3)})
    found = load_parameters(path)
    assert np.array_equal(found.arguments["w"].asnumpy(), [1, 1])
    assert found.auxiliary["m"].shape == (3,)


@pytest.mark.parametrize("damage", ["missing", "no arrays", "no names", "other names"])
def test_other_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "params"
    if damage == "no arrays":
        path.write_bytes(b"hello")
    elif damage == "no names":
        mx.nd.save(str(path), [mx.nd.ones(1)])
    elif damage == "other names":
        mx.nd.save(str(path), {"weight": mx.nd.ones(1)})
    with pytest.raises(InputError, match=str(path)):
        load_parameters(path)


def test_a_model_is_exported_to_mxnets_own_files(tmp_path: Path) -> None:
    replicas = Replicas(build(NetworkRequest("mlp", None, 3, SHAPE)), [mx.cpu()], 2, SHAPE)
    replicas.initialize(mx.init.Xavier())
    MXNetLearner(replicas, Single("local", None)).export(tmp_path / "given", 2)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["given-0002.params", "given-symbol.json"]
