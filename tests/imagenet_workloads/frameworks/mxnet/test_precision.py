"""float16: what is computed in it, that weights move in float32, and what is resumed.

On CPUs MXNet 1.9.1 has neither FullyConnected nor Convolution in float16. So the network here is
one layer of other operations.
"""

from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.mxnet import networks, optimizers
from imagenet_workloads.frameworks.mxnet.framework import MXNet
from imagenet_workloads.frameworks.mxnet.networks import data_input, with_softmax
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate, LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Parameters, Replicas
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule
from support.exact_resume import check_exact_resume
from support.tiny_dataset import write_dataset

SHAPE, CLASSES, BATCH = (3, 4, 4), 5, 8
BELOW_ONE = 1 - 2.0**-11
"""The greatest float16 below 1."""


def one_layer(request: NetworkRequest) -> mx.sym.Symbol:
    sizes = (request.classes, int(np.prod(request.image_shape)))
    weight = mx.sym.Variable("fc1_weight", shape=sizes, dtype=request.dtype)
    images = mx.sym.BatchNorm(data_input(request), fix_gamma=False, name="bn1")
    rows = mx.sym.expand_dims(mx.sym.Flatten(images), axis=1)
    products = mx.sym.broadcast_mul(rows, mx.sym.expand_dims(weight, axis=0))
    return with_softmax(mx.sym.sum(products, axis=2), request)


def replicas(dtype: str) -> Replicas:
    symbol = one_layer(NetworkRequest("one layer", None, CLASSES, SHAPE, dtype))
    return Replicas(symbol, [mx.cpu()], BATCH, SHAPE)


def updater(made: Replicas, rate: float, *options: str) -> LocalUpdater:
    schedule = ByUpdate(Schedule(rate, 100, 1))
    return LocalUpdater(optimizers.create(parse(options).optimizer, made, schedule, BATCH, 0), made)


def trained(dtype: str, start: Parameters) -> tuple[Replicas, LocalUpdater]:
    made = replicas(dtype)
    made.load(start)
    apply = updater(made, 0.1)
    for step in range(5):
        random = np.random.default_rng(step)
        images = mx.nd.array(random.normal(size=(BATCH, *SHAPE)))
        made.forward_backward(images, mx.nd.array(random.integers(0, CLASSES, BATCH)))
        apply()
    return made, apply


def test_weights_move_as_in_float32_but_for_rounding() -> None:
    first = replicas("float32")
    first.initialize(mx.init.Xavier())
    start = first.parameters()
    made, apply = trained("float16", start)
    rounded = made.parameters().arguments
    exact = trained("float32", start)[0].parameters().arguments
    assert rounded["fc1_weight"].dtype == np.float16
    assert {array.dtype for array in apply.states().values()} == {np.float32}
    for name, array in exact.items():
        expected = array.asnumpy()
        assert np.abs(expected - start.arguments[name].asnumpy()).max() > 0.01, name
        np.testing.assert_allclose(rounded[name].asnumpy(), expected, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("optimizer", ["sgd", "nag"])
def test_steps_that_float16_rounds_to_nothing_add_up(optimizer: str) -> None:
    """Neither three eighths of the distance to the next number move a weight, nor three more."""
    options, rate = ("--optimizer", optimizer, "--mom", "0", "--wd", "0"), (1 - BELOW_ONE) / 8
    made = replicas("float16")
    (weight,), (gradient,) = made.weights("fc1_weight"), made.gradients("fc1_weight")
    weight[:], gradient[:] = 1, BATCH
    apply = updater(made, rate, *options)
    for _ in range(3):
        apply()
    assert set(weight.asnumpy().flat) == {1}
    resumed = updater(made, rate, *options)
    resumed.load_states(apply.states())
    for _ in range(3):
        resumed()
    assert set(weight.asnumpy().flat) == {BELOW_ONE}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb", "lars"])
def test_a_resumed_training_has_the_same_bytes(
    tmp_path: Path, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "build", one_layer)
    # It refuses float16 on CPUs, where the networks of this project cannot be computed.
    monkeypatch.setattr(MXNet, "check", lambda framework: None)
    digits = write_dataset(tmp_path / "digits", train=40, validation=6).folder
    arguments = ["--dataset", str(digits), "--image-shape", "3,28,28", "--batch-size", "4"]
    arguments += ["--data-nthreads", "1", "--lr", "0.01"]
    arguments += ["--dtype", "float16", "--optimizer", optimizer]
    check_exact_resume(arguments, tmp_path, updates=3, exports=True)
    saved = mx.nd.load(str(tmp_path / "saved" / "3" / "params"))
    assert saved["arg:fc1_weight"].dtype == np.float16
