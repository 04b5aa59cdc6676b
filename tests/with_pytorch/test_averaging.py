"""The moving average of weights: its formula, what uses it, and that it is resumed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch.averaging import MovingAverage
from imagenet_workloads.frameworks.pytorch.checkpoint_files import restore_average
from imagenet_workloads.train.resume import ResumePoint
from support.pytorch_learners import RESNET, batch, learner, trained

DECAY = ("--ema-decay", "0.75")


def test_it_moves_by_the_rest_of_the_decay() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 8.0)
    average = MovingAverage(layer, 0.75)
    for value, expected in ((4.0, 7.0), (0.0, 5.25), (5.25, 5.25)):
        nn.init.constant_(layer.weight, value)
        average.update(layer)
        assert average.network.weight.item() == expected
    assert layer.weight.item() == 5.25 and layer.weight.requires_grad


def test_statistics_are_averaged_and_counts_are_taken() -> None:
    norm = nn.BatchNorm2d(1)
    average = MovingAverage(norm, 0.5)
    nn.init.constant_(norm.running_mean, 4.0)
    norm.num_batches_tracked += 3
    average.update(norm)
    assert average.network.running_mean.item() == 2.0
    assert average.network.num_batches_tracked.item() == 3


def test_it_changes_nothing_in_what_is_trained_and_is_what_is_exported(tmp_path: Path) -> None:
    plain, averaged = trained(3, learner()), trained(3, learner(RESNET, *DECAY))
    for one, other in zip(plain.network.parameters(), averaged.network.parameters(), strict=True):
        assert torch.equal(one, other)
    averaged.export(tmp_path / "model", 1)
    exported = load_file(tmp_path / "model-0001.safetensors")
    assert averaged.average is not None
    values = averaged.average.network.state_dict()
    assert all(torch.equal(exported[name], one) for name, one in values.items())
    assert not torch.equal(exported["fc1.weight"], averaged.network.fc1.weight)
    seen = averaged.predict(batch(5)).probabilities
    assert not np.allclose(seen, plain.predict(batch(5)).probabilities)


def test_a_resumed_average_goes_on(tmp_path: Path) -> None:
    whole = trained(2, learner(RESNET, *DECAY))
    whole.snapshot().save(tmp_path)
    again = learner(RESNET, *DECAY)
    assert again.average is not None and whole.average is not None
    restore_average(again.average, ResumePoint(Position(0, 2), tmp_path, True))
    for name, one in again.average.network.state_dict().items():
        assert torch.equal(one, whole.average.network.state_dict()[name])


def test_of_another_training_no_average_is_taken(tmp_path: Path) -> None:
    average = MovingAverage(nn.Linear(1, 1), 0.5)
    restore_average(average, ResumePoint(Position(0, 0), tmp_path, False))
    with pytest.raises(InputError, match=r"average\.safetensors: not a file of safetensors"):
        restore_average(average, ResumePoint(Position(0, 1), tmp_path, True))
