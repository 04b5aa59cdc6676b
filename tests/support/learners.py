"""Learners of TensorFlow's on one or two devices of this process, and batches for them."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.tensorflow import networks, optimizers
from imagenet_workloads.frameworks.tensorflow.families import initialize
from imagenet_workloads.frameworks.tensorflow.learner import TensorFlowLearner
from imagenet_workloads.frameworks.tensorflow.strategies.mirrored import Distributed
from imagenet_workloads.frameworks.tensorflow.weights import named, read_values
from imagenet_workloads.train.framework import UpdatePlan
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule

CLASSES = 4


@functools.cache
def on_devices(count: int) -> Distributed:
    """One worker with so many devices.

    Only one for all tests: TensorFlow numbers what devices add up from the same number in each, and
    remembers in the process how large it was.
    """
    devices = [f"CPU:{number}" for number in range(count)]
    return Distributed(tf.distribute.MirroredStrategy(devices), rank=0, workers=1)


def learner(
    request: NetworkRequest,
    devices: int = 1,
    arguments: Sequence[str] = (),
    images: int = 8,
    accumulation_steps: int = 1,
    rate: float = 0.1,
) -> TensorFlowLearner:
    """A learner whose network was drawn by the seed; `images` make an update."""
    options = parse(["--framework", "TensorFlow", "--network", request.network, *arguments])
    strategy = on_devices(devices)
    with strategy.distribution.scope():
        network = networks.build(request)
        initialize(options, network)
        return TensorFlowLearner(
            network,
            optimizers.create(options.optimizer, named(network)[0]),
            strategy,
            UpdatePlan(accumulation_steps, images, Schedule(rate, 10, 1), 0),
            smoothing=options.optimizer.label_smoothing,
        )


def batch(seed: int, size: int, shape: tuple[int, int, int], padding: int = 0) -> Batch:
    """Random images; the last `padding` of them are not to be counted."""
    random = np.random.default_rng(seed)
    channels, height, width = shape
    data = random.normal(size=(size, height, width, channels)).astype(np.float32)
    label = random.integers(0, CLASSES, size).astype(np.float32)
    return Batch(tf.constant(data), tf.constant(label), size - padding)


def values(made: TensorFlowLearner) -> dict[str, NDArray[np.float32]]:
    """Weights and statistics."""
    return read_values([*made.weights, *made.statistics])


def assert_close(found: Any, expected: Any, atol: float = 2e-6) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=atol, err_msg=name)
