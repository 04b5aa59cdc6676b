"""A step of several devices is the step of one, whatever the batch is cut into."""

import numpy as np
import pytest
import tensorflow as tf

from imagenet_workloads.data.batches import PADDING
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.learners import CLASSES, assert_close, batch, learner, values

SHAPE = (3, 20, 20)
MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
LENET = NetworkRequest("lenet", None, CLASSES, SHAPE)
RESNET = NetworkRequest("resnet", 8, CLASSES, SHAPE)


# In LeNet a rounding can change which pixel of a pool is the largest, so its steps are short.
@pytest.mark.parametrize(("request_", "rate"), [(MLP, 0.1), (LENET, 0.01)], ids=["mlp", "lenet"])
def test_two_devices_take_the_steps_of_one(request_: NetworkRequest, rate: float) -> None:
    # 9 images: one device has more of them than the other.
    plain = ("--mom", "0", "--wd", "0")
    one, two = (learner(request_, devices, plain, images=9, rate=rate) for devices in (1, 2))
    before = values(one)
    assert_close(values(two), before)
    for step in range(20):
        images = batch(step, 9, SHAPE)
        (_, expected), (_, found) = (made.train(images, True, Flags()) for made in (one, two))
        np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-4)
        assert np.array_equal(found.labels, images.label.numpy())
    assert_close(values(two), values(one))
    assert all(np.abs(values(one)[name] - before[name]).max() > rate / 100 for name in before)


@pytest.mark.parametrize("devices", [1, 2])
def test_batches_together_make_the_update_of_a_large_one(devices: int) -> None:
    large = learner(MLP, images=12)
    small = learner(MLP, devices, images=12, accumulation_steps=3)
    for step in range(4):
        parts = [batch(10 * step + place, 4, SHAPE) for place in range(3)]
        whole = batch(0, 12, SHAPE)
        data = tf.concat([part.data for part in parts], 0)
        label = tf.concat([part.label for part in parts], 0)
        large.train(type(whole)(data, label, 12), True, Flags())
        for place, part in enumerate(parts):
            small.train(part, place == 2, Flags())
    assert_close(values(small), values(large))


@pytest.mark.parametrize("smoothing", [0, 0.2])
def test_the_mean_gradient_moves_the_weights_by_the_schedule(smoothing: float) -> None:
    """The formula for one layer: the gradient of a bias is the mean error."""
    more = ["--mom", "0", "--wd", "0", "--label-smoothing", str(smoothing)]
    made = learner(MLP, arguments=more, rate=0.5)
    images = batch(3, 8, SHAPE)
    before = values(made)["fc3_bias"]
    _, outputs = made.train(images, True, Flags())
    labels = np.eye(CLASSES)[outputs.labels.astype(int)]
    error = outputs.probabilities - ((1 - smoothing) * labels + smoothing / CLASSES)
    np.testing.assert_allclose(
        values(made)["fc3_bias"], before - 0.5 * error.mean(axis=0), atol=1e-6
    )


def test_votes_are_everybodys() -> None:
    made = learner(MLP, devices=2)
    for flags in (Flags(), Flags(save=True), Flags(stop=True), Flags(True, True)):
        assert made.train(batch(0, 8, SHAPE), True, flags)[0] == flags
    assert (
        learner(MLP, accumulation_steps=2).train(batch(0, 8, SHAPE), False, Flags(True))[0]
        == Flags()
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_padding_is_left_out_of_the_outputs(devices: int) -> None:
    images = batch(0, 8, SHAPE, padding=3)
    made = learner(MLP, devices)
    found = made.predict(images)
    assert found.probabilities.shape == (5, CLASSES)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(found.labels, images.label.numpy()[:5])


def test_each_device_has_statistics_until_they_are_averaged() -> None:
    made = learner(RESNET, devices=2)
    images = batch(0, 8, SHAPE)
    made.train(images, True, Flags())
    halves = [images.data.numpy()[place : place + 4] for place in (0, 4)]
    moved = [0.1 * half.mean(axis=(0, 1, 2)) for half in halves]
    (mean,) = (one for one in made.statistics if one.name == "bn_data_moving_mean")
    copies = [copy.numpy() for copy in mean.variable.values]
    for copy, expected in zip(copies, moved, strict=True):
        np.testing.assert_allclose(copy, expected, rtol=1e-4, atol=1e-7)
    made.average_statistics()
    for copy in mean.variable.values:
        np.testing.assert_allclose(copy.numpy(), sum(moved) / 2, rtol=1e-4, atol=1e-7)


def test_a_network_without_statistics_has_nothing_to_average() -> None:
    made = learner(MLP)
    before = values(made)
    made.average_statistics()
    assert_close(values(made), before, atol=0)


@pytest.mark.parametrize("devices", [1, 2])
def test_padding_has_no_gradient(devices: int) -> None:
    whole = batch(0, 8, SHAPE)
    labels = tf.concat([whole.label[:3], tf.fill((5,), float(PADDING))], 0)
    found, expected = learner(MLP, devices, images=8), learner(MLP, images=8)
    found.train(type(whole)(whole.data, labels, 3), True, Flags())
    expected.train(type(whole)(whole.data[:3], whole.label[:3], 3), True, Flags())
    assert_close(values(found), values(expected))
