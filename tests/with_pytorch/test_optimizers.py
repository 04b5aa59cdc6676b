"""The optimizers are MXNet's, to the digits that float32 leaves, also while the rate changes."""

import numpy as np
import pytest
import torch
from torch import nn

from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import optimizers
from imagenet_workloads.train.schedule import Schedule

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
    """One rate for each update."""

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
