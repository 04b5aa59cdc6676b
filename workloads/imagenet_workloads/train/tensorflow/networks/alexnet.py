"""AlexNet, as in MXNet's zoo ("One weird trick…", Krizhevsky 2014)."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers

# Filters, kernel, stride and padding of each convolution, and whether a pooling follows.
CONVOLUTIONS = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


def build(request: Request) -> Any:
    """Build the network."""
    inputs = body = layers.images(request)
    for number, (filters, size, stride, pad, pools) in enumerate(CONVOLUTIONS, start=1):
        body = layers.convolution(body, filters, size, stride, pad, True, f"conv{number}")
        body = layers.relu(body)
        if pools:
            body = layers.largest(body, 3, 2)
    body = layers.flattened(body)
    for name in ("fc6", "fc7"):
        body = tf.keras.layers.Dropout(0.5)(layers.relu(layers.dense(body, 4096, name)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc8"), request)
