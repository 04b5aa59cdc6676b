"""The optimizers are MXNet's, to the digits that float32 leaves."""

import numpy as np
import pytest
import tensorflow as tf

from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import optimizers
from imagenet_workloads.frameworks.tensorflow.weights import Named
from support.sentences import says

WEIGHT = (0.5, -1.0, 2.0)
GRADIENTS = ((0.1, -0.2, 0.3), (2.0, 0.05, -0.1), (-0.3, 0.4, 0.01))
# What mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=0.1, wd=0.01,
# clip_gradient=0.25, param_idx2name={0: "fc_weight"})) makes of them in MXNet 1.9.1, with a
# momentum of 0.9 where there is one.
MXNETS = {
    "sgd": (0.4476603865623474, -0.9747657775878906, 1.939124584197998),
    "nag": (0.4416123628616333, -0.9844915866851807, 1.9234601259231567),
    "adam": (0.29504576325416565, -0.8711865544319153, 1.820940613746643),
    "lamb": (0.1447748988866806, -0.90012526512146, 1.6510639190673828),
    "rmsprop": (0.111254021525383, -1.0008585453033447, 1.751677393913269),
}
# MXNet has no adamw: w -= lr * (0.01 * w + m' / (sqrt(v') + 1e-8)) in double precision.
EXPECTED = MXNETS | {"adamw": (0.2950853358297872, -0.8765332441053404, 1.830609822937986)}


def made(
    name: str, weight: str = "fc_weight", *more: str
) -> tuple[optimizers.Optimizer, tf.Variable]:
    options = parse(
        ["--optimizer", name, "--wd", "0.01", "--clip-gradient", "0.25", "--lr", "0.1", *more]
    )
    variable = tf.Variable(WEIGHT)
    optimizers.check(options.optimizer)
    return optimizers.create(options.optimizer, [Named(weight, variable, None)]), variable


def move(
    optimizer: optimizers.Optimizer, variable: tf.Variable, *gradients: tuple[float, ...]
) -> None:
    for gradient in gradients:
        optimizer.apply_gradients(
            [(tf.constant(gradient), variable)], skip_gradients_aggregation=True
        )


@pytest.mark.parametrize("name", EXPECTED)
def test_they_move_weights_as_expected(name: str) -> None:
    optimizer, variable = made(name)
    move(optimizer, variable, *GRADIENTS)
    # Adam corrects its bias by 1 - 0.999^t, of which float32 knows four digits to start with; Keras
    # computes it in float32, MXNet in double.
    np.testing.assert_allclose(variable.numpy(), EXPECTED[name], atol=1e-5)


def test_every_one_is_compared() -> None:
    assert set(EXPECTED) == set(optimizers.OPTIMIZERS)


@pytest.mark.parametrize("name", EXPECTED)
def test_they_go_on_from_what_was_saved(name: str) -> None:
    whole, expected = made(name)
    move(whole, expected, *GRADIENTS)
    first, variable = made(name)
    move(first, variable, GRADIENTS[0])
    second, moved = made(name)
    moved.assign(variable)
    second.load_states(first.states())
    move(second, moved, *GRADIENTS[1:])
    assert np.array_equal(moved.numpy(), expected.numpy())


def test_the_state_of_another_is_told() -> None:
    with pytest.raises(KeyError, match="fc_weight/mean"):
        made("adam")[0].load_states(made("sgd")[0].states())


@pytest.mark.parametrize(
    ("name", "decays"), [("bn_gamma", True), ("bn_beta", False), ("x_bias", False)]
)
def test_biases_and_betas_do_not_decay(name: str, decays: bool) -> None:
    optimizer, variable = made("sgd", name, "--mom", "0")
    move(optimizer, variable, (0.0, 0.0, 0.0))
    assert np.array_equal(variable.numpy(), WEIGHT) is not decays


def test_an_unknown_one_gets_the_nearest() -> None:
    with pytest.raises(
        InputError, match=says("no 'adamax' here", "did you mean adam?", "--framework MXNet")
    ):
        made("adamax")
