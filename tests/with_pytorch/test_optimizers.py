"""The optimizers are MXNet's, to the digits that float32 leaves, also while the rate changes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from imagenet_workloads.checkpoint import Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import optimizers
from imagenet_workloads.frameworks.pytorch.checkpoint_files import restore, restore_average
from imagenet_workloads.frameworks.pytorch.optimizers import MovingAverage, Precision, Updater
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.schedule import Schedule
from support.pytorch_learners import RESNET, batch, differing, learner, trained

WEIGHT = (0.5, -1.0, 2.0)
GRADIENTS = ((0.1, -0.2, 0.3), (2.0, 0.05, -0.1), (-0.3, 0.4, 0.01))
RATES = (0.05, 0.1, 0.01)
# What mx.optimizer.create(name, wd=0.01, param_idx2name={0: "fc_weight"}) makes of them in MXNet
# 1.9.1, with a momentum of 0.9 where there is one.
MXNETS = {
    "sgd": (0.10780349, -0.98306650, 1.97157264),
    "nag": (-0.05538297, -0.98221457, 1.96619511),
    "adam": (0.36716667, -0.90199536, 1.89901733),
    "lamb": (0.25042483, -0.84091061, 1.83234048),
    "rmsprop": (0.03096960, -0.93484914, 1.92086899),
}
# MXNet has no adamw: w -= lr * (0.01 * w + m' / (sqrt(v') + 1e-8)) in double precision.
EXPECTED = MXNETS | {"adamw": (0.36660741, -0.90553177, 1.90354419)}


class Rates(Schedule):
    def __call__(self, update: int) -> float:
        return RATES[update]


def made(name: str, *more: str) -> tuple[optimizers.Updater, nn.Linear]:
    options = parse(["--optimizer", name, "--wd", "0.01", *more])
    optimizers.check(options.optimizer)
    layer = nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([WEIGHT]))
        layer.bias.fill_(1.0)
    return optimizers.Updater(options.optimizer, layer, Rates(0.1, 1, 1)), layer


def move(updater: optimizers.Updater, layer: nn.Linear, first: int, end: int) -> None:
    for number in range(first, end):
        layer.weight.grad = torch.tensor([GRADIENTS[number]])
        layer.bias.grad = torch.zeros(1)
        updater.update(number)


@pytest.mark.parametrize("name", EXPECTED)
def test_they_move_weights_as_expected_and_leave_biases(name: str) -> None:
    updater, layer = made(name)
    move(updater, layer, 0, 3)
    # PyTorch's Nesterov momentum has the decay of the weight before the update, MXNet's after it.
    least = 5e-4 if name == "nag" else 5e-6
    np.testing.assert_allclose(layer.weight[0].tolist(), EXPECTED[name], atol=least)
    assert layer.bias.item() == 1.0


def test_every_one_is_compared() -> None:
    assert set(EXPECTED) == set(optimizers.OPTIMIZERS)


def test_gradients_are_clipped() -> None:
    updater, layer = made("sgd", "--clip-gradient", "0.25")
    move(updater, layer, 0, 3)
    np.testing.assert_allclose(layer.weight[0].tolist(), (0.43978602, -0.98156649, 1.97834253))


@pytest.mark.parametrize("name", EXPECTED)
def test_they_go_on_from_what_was_saved(name: str) -> None:
    whole, expected = made(name)
    move(whole, expected, 0, 2)
    again, layer = made(name)
    again.load_states({key: array.clone() for key, array in whole.states().items()})
    with torch.no_grad():
        layer.weight.copy_(expected.weight)
    for updater, moved in ((whole, expected), (again, layer)):
        move(updater, moved, 2, 3)
    assert torch.equal(layer.weight, expected.weight)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_saved_lies_in_memory_as_the_weight_does(name: str) -> None:
    """The order of a sum follows the memory, and LAMB divides by a norm."""
    network = nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last)
    options = parse(["--optimizer", name]).optimizer
    whole, again = (optimizers.Updater(options, network, Rates(0.1, 1, 1)) for _ in range(2))
    network.weight.grad = torch.ones_like(network.weight)
    whole.update(0)
    again.load_states({key: array.contiguous() for key, array in whole.states().items()})

    strides = {key: array.stride() for key, array in again.states().items()}
    assert strides == {key: array.stride() for key, array in whole.states().items()}
    assert network.weight.stride() in strides.values()


def test_states_of_another_network_are_refused() -> None:
    updater, layer = made("sgd")
    move(updater, layer, 0, 1)
    other = optimizers.Updater(
        parse(["--optimizer", "sgd"]).optimizer, nn.Sequential(nn.Linear(3, 1)), Rates(0.1, 1, 1)
    )
    with pytest.raises(ValueError, match="it has no weight weight"):
        other.load_states(updater.states())


def test_an_unknown_one_is_refused_with_what_there_is() -> None:
    with pytest.raises(InputError, match="no 'lbsgd' here; did you mean sgd"):
        made("lbsgd")


def test_lamb_moves_a_weight_of_zero() -> None:
    updater, layer = made("lamb")
    with torch.no_grad():
        layer.weight.zero_()
    move(updater, layer, 0, 1)
    # Adam's first step: the learning rate by the sign of the gradient.
    np.testing.assert_allclose(layer.weight[0].tolist(), (-0.05, 0.05, -0.05), atol=1e-6)


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


TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

FLOAT16 = ("--dtype", "float16")
OPTIONS = parse(["--framework", "PyTorch", *FLOAT16])


@pytest.mark.parametrize("name", TYPES)
def test_operations_have_the_precision_and_weights_float32(name: str) -> None:
    made = learner(RESNET, "--dtype", name)
    seen = []
    made.network.fc1.register_forward_hook(lambda _, __, scores: seen.append(scores.dtype))
    trained(1, made)
    assert seen == [TYPES[name]]
    assert {one.dtype for one in made.network.parameters()} == {torch.float32}
    states = made.updater.states()
    assert {one.dtype for key, one in states.items() if "/" in key} == {torch.float32}


@pytest.mark.parametrize(("name", "within"), [("bfloat16", 5e-3), ("float16", 1e-3)])
def test_weights_move_as_in_float32_but_for_rounding(name: str, within: float) -> None:
    exact, rounded = trained(1, learner()), trained(1, learner(RESNET, "--dtype", name))
    assert differing(rounded, exact) != []
    for one, other in zip(rounded.network.parameters(), exact.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=within, rtol=0)


def one_weight(rate: float) -> tuple[Updater, nn.Linear]:
    """A weight of 1 with plain steps of a rate, in float16."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    options = parse(["--optimizer", "sgd", "--mom", "0", "--wd", "0"])
    schedule = Schedule(rate, 10, 1)
    return Updater(options.optimizer, layer, schedule, Precision("float16")), layer


def test_a_gradient_below_the_smallest_float16_moves_weights() -> None:
    updater, layer = one_weight(rate=2.0**26)
    with updater.precision.autocast():
        scores = layer(torch.ones(1, 1))
    assert scores.dtype == torch.float16
    updater.backward(scores.float().sum() * 2.0**-26)
    updater.update(0)
    assert layer.weight.item() == 0


def test_an_overflow_leaves_the_weights_and_halves_the_scale() -> None:
    updater, layer = one_weight(rate=1.0)
    scale = updater.states()[":scale"].item()
    updater.backward(layer(torch.full((1, 1), float("inf"))).sum())
    updater.update(0)
    assert layer.weight.item() == 1.0
    assert updater.states()[":scale"].item() == scale / 2
    updater.backward(layer(torch.full((1, 1), 0.5)).sum())
    updater.update(1)
    assert layer.weight.item() == 0.5
    assert updater.states()[":growth_tracker"].item() == 1


def test_a_checkpoint_has_the_scale(tmp_path: Path) -> None:
    whole = learner(RESNET, *FLOAT16)
    # An overflow, so that the scale is not the first one.
    whole.updater.backward(next(whole.network.parameters()).sum() * float("inf"))
    whole.updater.update(0)
    trained(2, whole).snapshot().save(tmp_path)
    again = learner(RESNET, *FLOAT16)
    restore(OPTIONS, again.network, again.updater, ResumePoint(Position(0, 2), tmp_path, True))
    saved, found = whole.updater.states(), again.updater.states()
    first = learner(RESNET, *FLOAT16).updater.states()
    assert found[":scale"] == saved[":scale"] != first[":scale"]
    assert found[":growth_tracker"] == saved[":growth_tracker"] == 2


def test_states_without_a_scale_are_refused() -> None:
    with pytest.raises(ValueError, match="it has no scale of float16"):
        Precision("float16").load_states({})
