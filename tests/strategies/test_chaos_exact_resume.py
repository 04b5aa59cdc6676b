"""Two kills of each framework, of the 100 of `make chaos-training`: the same bytes."""

import random
from pathlib import Path

import numpy as np
import pytest

from chaos.exact_resume import (
    ENVIRONMENTS,
    EPOCHS,
    IMAGES,
    KILLS,
    OFTEN,
    Training,
    computed,
    differences,
    kill_and_resume,
)
from imagenet_workloads.checkpoint import Position
from support.forged_results import resealed
from support.tiny_dataset import write_dataset

# Five trainings, beside another test.
pytestmark = pytest.mark.timeout(900)

STATE = {
    "MXNet": {"params", "states", "statistics.npy", "random"},
    "TensorFlow": {"weights.npz", "states.npz", "statistics.npy", "random"},
    "PyTorch": {"weights.safetensors", "states.safetensors", "statistics.npy", "random"},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data"), IMAGES, validation=8, shards=1).folder


@pytest.mark.parametrize("framework", ENVIRONMENTS)
def test_killed_and_resumed(framework: str, dataset: Path, tmp_path: Path) -> None:
    training = Training(framework, dataset)
    expected = computed(training.run(tmp_path / "whole"))
    assert expected.keys() == {Position(epoch, 0) for epoch in range(1, EPOCHS + 1)}
    assert expected[Position(EPOCHS, 0)].keys() == STATE[framework]
    assert "weights 10 steps later" in expected[Position(1, 0)]
    for step in random.Random(1).sample(KILLS, 2):
        outcome = kill_and_resume(training, step, expected)
        assert outcome.redone >= 1
        assert outcome.differences == [], f"killed after step {step}"


def test_a_checkpoint_with_other_bytes_is_found(dataset: Path, tmp_path: Path) -> None:
    training = Training("MXNet", dataset)
    expected = computed(training.run(tmp_path / "whole"))
    killed = training.run_until_killed(tmp_path / "cut", KILLS[-1])
    newest = max((killed / "checkpoints").iterdir())
    statistics = np.load(newest / "statistics.npy")
    np.save(newest / "statistics.npy", np.nextafter(statistics, np.float32(9)))
    resealed(newest)
    found = computed(training.run(tmp_path / "cut", 1, *OFTEN))
    assert f"{Position(EPOCHS, 0).name}: statistics.npy" in differences(found, expected)
