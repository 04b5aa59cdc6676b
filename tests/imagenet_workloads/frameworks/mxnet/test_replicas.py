"""A batch on several devices is the batch on one."""

from itertools import zip_longest

import mxnet as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import (
    ENOUGH,
    Parameters,
    Replicas,
    Weight,
    allocate,
    plan,
)
from imagenet_workloads.train.networks import NetworkRequest

SHAPE = (3, 8, 8)


def replicas(
    devices: int, batch: int = 6, network: str = "mlp", accumulate: bool = False
) -> Replicas:
    contexts = [mx.cpu(number) for number in range(devices)]
    symbol = build(NetworkRequest(network, 8, 4, SHAPE))
    return Replicas(symbol, contexts, batch, SHAPE, accumulate)


def batch_of(images: int) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    random = np.random.default_rng(images)
    return (
        mx.nd.array(random.normal(size=(images, *SHAPE))),
        mx.nd.array(random.integers(0, 4, images)),
    )


@pytest.mark.parametrize("devices", [2, 4])
def test_gradients_of_shares_add_up_to_the_whole(devices: int) -> None:
    one, several = replicas(1), replicas(devices)
    one.initialize(mx.init.Xavier())
    several.load(one.parameters())
    data, label = batch_of(6)
    for kind in (one, several):
        kind.forward_backward(data, label)
    np.testing.assert_allclose(several.probabilities(), one.probabilities(), atol=1e-6)
    for name in one.weight_names:
        parts = sum(part.asnumpy() for part in several.gradients(name))
        np.testing.assert_allclose(parts, one.gradients(name)[0].asnumpy(), atol=1e-5)


@pytest.mark.parametrize("network", ["resnet", "mobilenet"])
def test_gradients_in_buckets_are_those_of_arrays_of_their_own(network: str) -> None:
    ours = replicas(1, network=network)
    ours.initialize(mx.init.Xavier())
    data, label = batch_of(6)
    theirs = ours.symbol.simple_bind(mx.cpu(), data=data.shape, softmax_label=label.shape)
    values = ours.parameters()
    theirs.copy_params_from(dict(values.arguments), dict(values.auxiliary))

    ours.forward_backward(data, label)
    theirs.forward(is_train=True, data=data, softmax_label=label)
    theirs.backward()

    for name in ours.weight_names:
        found, expected = ours.gradients(name)[0], theirs.grad_dict[name]
        np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy(), name)


def test_prediction_sees_the_images_in_order() -> None:
    one, several = replicas(1), replicas(3)
    one.initialize(mx.init.Xavier())
    several.load(one.parameters())
    data, _ = batch_of(6)
    for kind in (one, several):
        kind.forward(data)
    np.testing.assert_allclose(several.probabilities(), one.probabilities(), atol=1e-6)
    assert several.probabilities().shape == (6, 4)


def test_gradients_accumulate_until_they_are_cleared() -> None:
    adding = replicas(1, accumulate=True)
    adding.initialize(mx.init.Xavier())
    data, label = batch_of(6)
    adding.forward_backward(data, label)
    once = adding.gradients("fc1_weight")[0].asnumpy()
    adding.forward_backward(data, label)
    np.testing.assert_allclose(adding.gradients("fc1_weight")[0].asnumpy(), 2 * once, rtol=1e-5)
    adding.clear_gradients()
    assert not adding.gradients("fc1_weight")[0].asnumpy().any()


def test_initialize_gives_every_device_the_same_values() -> None:
    several = replicas(2, network="resnet")
    several.initialize(mx.init.Xavier())
    for name in several.weight_names:
        first, second = several.weights(name)
        assert np.array_equal(first.asnumpy(), second.asnumpy())
    variance = several.statistics("bn1_moving_var")[1].asnumpy()
    assert np.array_equal(variance, np.ones_like(variance))


def test_values_of_another_network_are_refused() -> None:
    target = replicas(1)
    target.initialize(mx.init.Xavier())
    values = target.parameters()
    missing = {name: array for name, array in values.arguments.items() if name != "fc2_bias"}
    with pytest.raises(ValueError, match="no values for fc2_bias"):
        target.load(Parameters(missing, {}))
    other = dict(values.arguments) | {"fc3_bias": mx.nd.zeros(7)}
    with pytest.raises(ValueError, match=r"fc3_bias is \(7,\), not \(4,\)"):
        target.load(Parameters(other, {}))


def test_mirroring_recomputes_and_changes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients, plans = [], []
    data, label = batch_of(6)
    start = replicas(1, network="resnet")
    start.initialize(mx.init.Xavier())
    for switch in ("0", "1"):
        monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", switch)
        mirrored = replicas(1, network="resnet")
        mirrored.load(start.parameters())
        mirrored.forward_backward(data, label)
        gradients.append(mirrored.gradients("conv0_weight")[0].asnumpy())
        plans.append("_mirror" in mirrored._executors[0].debug_str())
    assert plans == [False, True]
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0, 0.2])
def test_labels_are_smoothed_over_all_classes(smoothing: float) -> None:
    request = NetworkRequest("mlp", None, 4, SHAPE, smoothing=smoothing)
    made = Replicas(build(request), [mx.cpu()], 6, SHAPE, accumulate=False)
    made.initialize(mx.init.Xavier())
    data, label = batch_of(6)
    made.forward_backward(data, label)
    targets = (1 - smoothing) * np.eye(4)[label.asnumpy().astype(int)] + smoothing / 4
    error = (made.probabilities() - targets).sum(axis=0)
    np.testing.assert_allclose(made.gradients("fc3_bias")[0].asnumpy(), error, atol=1e-5)


WEIGHTS = st.lists(
    st.builds(Weight, st.just("w"), st.integers(1, 40), st.sampled_from([np.float32, np.float16]))
)


@given(WEIGHTS, st.integers(1, 100))
def test_every_weight_is_in_one_bucket_and_in_order(weights: list[Weight], enough: int) -> None:
    buckets = plan(weights, enough)
    assert [weight for bucket in buckets for weight in bucket] == weights
    assert all(len({weight.dtype for weight in bucket}) == 1 for bucket in buckets)


@given(WEIGHTS, st.integers(1, 100))
def test_a_bucket_ends_when_it_has_enough(weights: list[Weight], enough: int) -> None:
    buckets = plan(weights, enough)
    for bucket, following in zip_longest(buckets, buckets[1:]):
        *before, _ = sizes = [weight.size for weight in bucket]
        assert sum(before) < enough
        is_last = following is None or following[0].dtype != bucket[0].dtype
        assert is_last or sum(sizes) >= enough


def test_what_happens_to_a_bucket_happens_to_the_gradients_in_it() -> None:
    shapes = {"conv": (4, 3, 2), "gamma": (4,), "large": (1000, 1000), "bias": (2,)}
    weights = {name: mx.nd.ones(shape) for name, shape in shapes.items()}

    (first, last), gradients = allocate(weights)

    assert (first.size, last.size) == (24 + 4 + ENOUGH, 2)
    gradients["gamma"][:] = 5
    assert first[24:28].asnumpy().tolist() == [5] * 4
    assert first.sum().asscalar() == 20
    first[:] *= 2
    last[:] = 3
    assert {name: gradient.shape for name, gradient in gradients.items()} == shapes
    assert gradients["gamma"].asnumpy().tolist() == [10] * 4
    assert gradients["bias"].asnumpy().tolist() == [3] * 2
