"""DenseNet (Huang et al. 2016), of 121, 161, 169 or 201 layers, as in MXNet's zoo."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers

# Filters of the first convolution, growth, and layers of each block.
PLANS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
EPSILON = 1e-5


def build(request: Request) -> Any:
    """Build the network of a depth in PLANS."""
    filters, growth, blocks = PLANS[request.num_layers or 0]
    inputs = layers.images(request)
    body = _activated(layers.convolution(inputs, filters, 7, 2, name="conv0"), "bn0")
    body = layers.largest(body, 3, 2, pad=1)
    for block, count in enumerate(blocks, start=1):
        for number in range(1, count + 1):
            body = _grown(body, growth, f"block{block}_layer{number}")
        filters += growth * count
        if block < len(blocks):
            filters //= 2
            body = _activated(body, f"transition{block}_bn")
            body = layers.convolution(body, filters, 1, name=f"transition{block}_conv")
            body = tf.keras.layers.AveragePooling2D(2, 2, padding="same")(body)
    body = layers.average(_activated(body, "bn1"))
    return layers.model(inputs, layers.dense(body, request.classes, "fc1"), request)


def _grown(body: Any, growth: int, name: str) -> Any:
    branch = layers.convolution(
        _activated(body, f"{name}_bn1"), 4 * growth, 1, name=f"{name}_conv1"
    )
    branch = layers.convolution(_activated(branch, f"{name}_bn2"), growth, 3, name=f"{name}_conv2")
    return tf.keras.layers.Concatenate()([body, branch])


def _activated(body: Any, name: str) -> Any:
    return layers.relu(layers.normalized(body, name, EPSILON))
