"""Saved, evaluated, killed after any update and resumed: the same bytes as uninterrupted."""

from pathlib import Path

import pytest

from imagenet_workloads.frameworks.pytorch.optimizers import OPTIMIZERS
from support.digit_datasets import prepare_digits
from support.exact_resume import AUGMENTATION, check_exact_resume


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")


def arguments(digits: Path, *more: str) -> list[str]:
    common = ["--framework", "PyTorch", "--dataset", str(digits), "--data-nthreads", "1"]
    return [*common, "--batch-size", "4", "--random-crop", "1", "--pad-size", "2", *more]


@pytest.mark.parametrize(
    "network",
    [
        ("--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28"),
        ("--network", "squeezenet", "--image-shape", "3,48,48"),
        (
            *("--network", "squeezenet", "--image-shape", "3,48,48"),
            *("--activation-checkpointing", "1"),
        ),
    ],
    ids=["BatchNorm", "dropout", "activation checkpointing"],
)
def test_a_network(digits: Path, tmp_path: Path, network: tuple[str, ...]) -> None:
    check_exact_resume(arguments(digits, *network), tmp_path, exports=True)


def test_a_recipe(digits: Path, tmp_path: Path) -> None:
    network = ("--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28")
    mixed = ("--mixup", "0.2", "--cutmix", "1", "--label-smoothing", "0.1", "--ema-decay", "0.9")
    chosen = arguments(digits, *network, *mixed, *AUGMENTATION)
    check_exact_resume(chosen, tmp_path, updates=3, exports=True)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer(digits: Path, tmp_path: Path, optimizer: str) -> None:
    network = ("--network", "mlp", "--image-shape", "3,28,28")
    check_exact_resume(arguments(digits, *network, "--optimizer", optimizer), tmp_path, updates=3)
