"""Initial values of a network, drawn as MXNet's initializers of the same names draw them.

They depend on the seed alone, so every worker draws the same. Imports TensorFlow.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from imagenet_spec.program.train import Options
from imagenet_workloads.frameworks.tensorflow.weights import named

_init = tf.keras.initializers


def _scaled(scale: float, mode: str, distribution: str = "untruncated_normal") -> Any:
    return lambda seed: _init.VarianceScaling(scale, mode, distribution, seed=seed)


# MXNet's MSRAPrelu for its default slope, 0.25.
_PRELU = 2.0 / (1.0 + 0.25**2)
MAKERS: Mapping[str, Callable[[int], Any]] = {
    "he": _scaled(2.0, "fan_in"),
    "xavier": _scaled(1.0, "fan_avg", "uniform"),
    "msra": _scaled(_PRELU, "fan_avg"),
    "orthogonal": lambda seed: _init.Orthogonal(1.414, seed=seed),
    "normal": lambda seed: _init.RandomNormal(0.0, 0.01, seed=seed),
    "uniform": lambda seed: _init.RandomUniform(-0.07, 0.07, seed=seed),
    "one": lambda seed: _init.Ones(),
    "zero": lambda seed: _init.Zeros(),
}


def initialize(options: Options, model: Any) -> None:
    """Draw every weight; biases, gammas, betas and statistics keep Keras's values.

    `default` is the initializer of MXNet's example for the network.
    """
    name = options.model.initializer
    if name == "default":
        name = {"alexnet": "normal", "vgg": "xavier"}.get(options.model.network, "he")
    weights, _ = named(model)
    for place, one in enumerate(weights):
        if one.name.endswith("_weight"):
            maker = MAKERS[name](options.cluster.seed * 100_003 + place)
            one.variable.assign(maker(one.variable.shape))
