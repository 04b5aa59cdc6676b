"""Saved, evaluated, killed after any update and resumed: the same bytes as uninterrupted."""

from pathlib import Path

import mxnet as mx
import pytest

from imagenet_workloads.frameworks.mxnet import networks
from imagenet_workloads.frameworks.mxnet.networks import data_input, with_softmax
from imagenet_workloads.frameworks.mxnet.optimizers import known_names
from imagenet_workloads.train.networks import NetworkRequest
from support.exact_resume import AUGMENTATION, check_exact_resume
from support.tiny_dataset import write_dataset


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), train=40, validation=6).folder


def arguments(digits: Path, *more: str) -> list[str]:
    common = ["--dataset", str(digits), "--batch-size", "4", "--data-nthreads", "1"]
    return [*common, "--random-crop", "1", "--pad-size", "2", "--lr", "0.01", *more]


# MXNet's dcasgd fails with momentum.
MORE = {"dcasgd": ("--mom", "0")}


def with_dropout(request: NetworkRequest) -> mx.sym.Symbol:
    """Build a small network, for those of the options with dropout are large."""
    body = mx.sym.Dropout(mx.sym.Flatten(data_input(request)), p=0.5)
    return with_softmax(
        mx.sym.FullyConnected(body, num_hidden=request.classes, name="fc1"), request
    )


def test_batch_norm(digits: Path, tmp_path: Path) -> None:
    network = ("--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28")
    check_exact_resume(arguments(digits, *network), tmp_path, updates=3, exports=True)


def test_random_augmentation(digits: Path, tmp_path: Path) -> None:
    network = ("--network", "mlp", "--image-shape", "3,28,28")
    check_exact_resume(arguments(digits, *network, *AUGMENTATION), tmp_path, updates=3)


def test_dropout(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "build", with_dropout)
    check_exact_resume(arguments(digits, "--image-shape", "3,28,28"), tmp_path)


@pytest.mark.parametrize("optimizer", known_names())
def test_an_optimizer(digits: Path, tmp_path: Path, optimizer: str) -> None:
    network = ("--network", "mlp", "--image-shape", "3,28,28", *MORE.get(optimizer, ()))
    chosen = arguments(digits, *network, "--optimizer", optimizer)
    check_exact_resume(chosen, tmp_path, updates=3)
