"""Optimizers: what they are given, and that their state survives a checkpoint."""

import mxnet as mx
import numpy as np
import pytest

from imagenet_spec.program.train import Options
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import optimizers
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule

SHAPE = (1, 4, 4)


def replicas(devices: int = 1) -> Replicas:
    contexts = [mx.cpu(number) for number in range(devices)]
    made = Replicas(build(NetworkRequest("mlp", None, 3, SHAPE)), contexts, 4, SHAPE)
    made.initialize(mx.init.Xavier())
    return made


def updater(
    options: Options, made: Replicas, updates: int = 0, rate: float = 0.01
) -> optimizers.LocalUpdater:
    schedule = ByUpdate(Schedule(rate, 100, 1))
    return optimizers.LocalUpdater(
        optimizers.create(options.optimizer, made, schedule, 4, updates), made
    )


def run(made: Replicas, apply: optimizers.LocalUpdater, steps: range) -> None:
    for step in steps:
        random = np.random.default_rng(step)
        for name in made.weight_names:
            gradient = random.normal(size=made.weights(name)[0].shape)
            for part in made.gradients(name):
                part[:] = mx.nd.array(gradient)
        apply()


@pytest.mark.parametrize(
    "name",
    ["sgd", "nag", "adam", "adagrad", "rmsprop", "adadelta", "ftrl", "adamax", "nadam", "signum",
     "lbsgd", "lamb", "lars", "ftml", "dcasgd"],
)  # fmt: skip
@pytest.mark.parametrize("devices", [1, 2])
def test_saved_state_continues_as_if_never_interrupted(name: str, devices: int) -> None:
    options = parse(["--optimizer", name, *(["--mom", "0"] if name == "dcasgd" else [])])
    whole = replicas(devices)
    start = whole.parameters()
    apply = updater(options, whole)
    run(whole, apply, range(3))
    saved, middle = apply.states(), whole.parameters()
    run(whole, apply, range(3, 6))

    resumed = replicas(devices)
    resumed.load(middle)
    again = updater(options, resumed, updates=3)
    again.load_states(saved)
    run(resumed, again, range(3, 6))
    for weight in whole.weight_names:
        expected = whole.weights(weight)[0].asnumpy()
        assert not np.array_equal(expected, start.arguments[weight].asnumpy())
        for part in resumed.weights(weight):
            np.testing.assert_allclose(part.asnumpy(), expected, atol=1e-6, err_msg=weight)


def step_with(made: Replicas, apply: optimizers.LocalUpdater, gradient: float) -> None:
    """One update, with the same number in every gradient."""
    for name in made.weight_names:
        for part in made.gradients(name):
            part[:] = gradient
    apply()


def test_the_state_of_another_optimizer_is_refused() -> None:
    made = replicas()
    apply = updater(parse([]), made)
    run(made, apply, range(1))
    with pytest.raises(KeyError, match="fc1_weight/0"):
        updater(parse(["--optimizer", "adam"]), made).load_states(apply.states())


def test_before_the_first_update_there_is_no_state() -> None:
    made = replicas()
    apply = updater(parse([]), made)
    assert apply.states() == {}
    apply.load_states({})


def test_weights_decay_and_biases_do_not() -> None:
    made = replicas()
    for part in made.weights("fc1_bias"):
        part[:] = 1.0
    before = made.parameters()
    apply = updater(parse(["--wd", "0.5", "--mom", "0"]), made, rate=0.1)
    step_with(made, apply, 0)
    after = made.parameters()
    np.testing.assert_allclose(
        after.arguments["fc1_weight"].asnumpy(),
        before.arguments["fc1_weight"].asnumpy() * (1 - 0.1 * 0.5),
        rtol=1e-5,
    )
    assert np.array_equal(after.arguments["fc1_bias"].asnumpy(), np.ones(128, np.float32))


def late_images(shape: tuple[int, ...]) -> mx.nd.NDArray:
    """Return images of ones, for which MXNet's engine has to compute for a moment."""
    table = mx.nd.ones((500, 500))
    for _ in range(5):
        table = mx.nd.dot(table, table) / 500
    return mx.nd.ones(shape) * table[0, 0]


@pytest.mark.parametrize("name", ["nadam", "adamax", "sgd"])
def test_weight_decay_waits_for_what_batch_norm_writes_in_the_forward_pass(name: str) -> None:
    shape = (1, 28, 28)
    found = []
    for waits in (True, False):
        made = Replicas(build(NetworkRequest("resnet", 8, 3, shape)), [mx.cpu()], 4, shape)
        made.initialize(mx.init.One())
        apply = updater(parse(["--optimizer", name, "--wd", "0.1"]), made, rate=0.1)
        for _ in range(3):
            made.forward_backward(late_images((4, *shape)), mx.nd.array([0, 1, 2, 0]))
            if waits:
                mx.nd.waitall()
            apply()
        states = apply.states()
        found.append(np.array([states[key].asnumpy() for key in states if "bn_data_gamma" in key]))
    in_order, at_once = found
    assert np.array_equal(in_order, at_once)
    assert in_order.any()


def test_gradients_are_clipped_after_they_became_means() -> None:
    made = replicas()
    before = made.parameters().arguments["fc3_bias"].asnumpy()
    options = parse(["--wd", "0", "--mom", "0", "--clip-gradient", "0.25"])
    apply = updater(options, made, rate=1.0)
    step_with(made, apply, 40.0)
    after = made.parameters().arguments["fc3_bias"].asnumpy()
    np.testing.assert_allclose(before - after, 0.25, rtol=1e-5)


def test_the_rate_is_the_schedules() -> None:
    made = replicas()
    schedule = ByUpdate(Schedule(1.0, 10, 2, warmup_epochs=1))
    chosen = parse(["--wd", "0", "--mom", "0"]).optimizer
    apply = optimizers.LocalUpdater(optimizers.create(chosen, made, schedule, 1, 3), made)
    before = made.parameters().arguments["fc3_bias"].asnumpy()
    step_with(made, apply, 1.0)
    # The fourth of ten updates of the warm-up.
    after = made.parameters().arguments["fc3_bias"].asnumpy()
    np.testing.assert_allclose(before - after, 0.4, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("adm", "did you mean adam"),
        ("test", "write one of"),
        ("groupadagrad", "did you mean adagrad"),
    ],
)
def test_unknown_optimizers_are_named(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"{name!r} is unknown; {hint}"):
        updater(parse(["--optimizer", name]), replicas())


def test_what_fails_in_mxnet_is_refused() -> None:
    with pytest.raises(InputError, match="write --mom 0"):
        updater(parse(["--optimizer", "dcasgd"]), replicas())
