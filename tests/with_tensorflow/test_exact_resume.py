"""Saved, evaluated, killed after any update and resumed: the same bytes as uninterrupted."""

from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.frameworks.tensorflow import framework, layers, networks
from imagenet_workloads.frameworks.tensorflow.optimizers import OPTIMIZERS
from imagenet_workloads.train.networks import NetworkRequest
from support.exact_resume import AUGMENTATION, check_exact_resume
from support.learners import on_devices
from support.tiny_records import write_dataset


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), 40, 6, shards=1)


def arguments(digits: Path, *more: str) -> list[str]:
    common = ["--framework", "TensorFlow", "--dataset", str(digits), "--data-nthreads", "1"]
    return [*common, "--batch-size", "4", "--random-crop", "1", "--pad-size", "2", *more]


def use_devices(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Train on devices of this process, which TensorFlow has taken already."""
    monkeypatch.setattr(framework, "take_devices", lambda gpus: None)
    monkeypatch.setattr(framework, "join", lambda name: on_devices(count))


def with_dropout(request: NetworkRequest) -> Any:
    """Build a small network, for those of the options with dropout are large."""
    inputs = layers.images(request)
    body = layers.dropout(layers.dropout(layers.flattened(inputs)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc1"), request)


def test_batch_norm(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_devices(monkeypatch, 2)
    network = ("--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28")
    check_exact_resume(arguments(digits, *network), tmp_path, updates=3, exports=True)


def test_random_augmentation(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_devices(monkeypatch, 1)
    network = ("--network", "mlp", "--image-shape", "3,28,28")
    check_exact_resume(arguments(digits, *network, *AUGMENTATION), tmp_path, updates=3)


def test_dropout(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_devices(monkeypatch, 2)
    monkeypatch.setattr(networks, "build", with_dropout)
    check_exact_resume(arguments(digits, "--image-shape", "3,28,28"), tmp_path)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer(
    digits: Path, tmp_path: Path, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_devices(monkeypatch, 1)
    network = ("--network", "mlp", "--image-shape", "3,28,28")
    check_exact_resume(arguments(digits, *network, "--optimizer", optimizer), tmp_path, updates=3)
