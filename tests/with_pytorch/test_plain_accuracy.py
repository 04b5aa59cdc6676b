"""The plain loop beside imagenet-train: the same rates, and a network that learns."""

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import plain_accuracy
from imagenet_workloads.train.schedule import Schedule
from support.digit_datasets import prepare_digits

OPTIMIZER = {"learningRate": 0.4, "momentum": 0.9, "weightDecay": 5e-4, "warmupEpochs": 2}
RECIPE: dict[str, Any] = {
    "model": {"network": "lenet", "imageShape": [3, 28, 28]},
    "batchSize": 64,
    "epochs": 3,
    "optimizer": OPTIMIZER | {"learningRate": 0.02, "warmupEpochs": 1},
    "augmentation": {"padSize": 2},
    "labelSmoothing": 0.1,
}


def test_each_update_has_the_rate_of_imagenet_train() -> None:
    updates, epochs = 7, 5
    schedule = Schedule(0.4, updates, epochs, 2, shape="polynomial", power=1.0)
    assert [
        plain_accuracy.rate(OPTIMIZER, update, updates, epochs)
        for update in range(updates * epochs)
    ] == pytest.approx([schedule(update) for update in range(updates * epochs)])


def test_it_learns_and_a_seed_gives_the_same_again(tmp_path: Path) -> None:
    dataset = prepare_digits(tmp_path, "RecordIO")

    def train(seed: int) -> dict[str, list[float]]:
        torch.manual_seed(seed)
        return plain_accuracy.train(dataset, RECIPE, torch.device("cpu"))

    first, again, other = map(train, (0, 0, 1))
    assert len(first["top1"]) == len(first["seconds"]) == RECIPE["epochs"]
    assert first["top1"][-1] > 0.6
    assert first["seconds"] == sorted(first["seconds"])
    assert first["top1"] == again["top1"]
    assert first["top1"] != other["top1"]
