"""LeNet (LeCun et al. 1998), as in MXNet's example: two convolutions for small images."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers


def build(request: Request) -> Any:
    """Build LeNet."""
    inputs = body = layers.images(request)
    for number, filters in ((1, 20), (2, 50)):
        body = layers.convolution(body, filters, 5, pad=0, bias=True, name=f"conv{number}")
        body = layers.largest(tf.keras.activations.tanh(body), 2, 2)
    body = tf.keras.activations.tanh(layers.dense(layers.flattened(body), 500, "fc1"))
    return layers.model(inputs, layers.dense(body, request.classes, "fc2"), request)
