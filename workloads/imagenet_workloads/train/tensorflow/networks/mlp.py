"""A multilayer perceptron, as in MXNet's example: the smallest network that learns."""

from typing import Any

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers


def build(request: Request) -> Any:
    """Build layers of 128 and 64 on the flattened image."""
    inputs = layers.images(request)
    body = layers.flattened(inputs)
    for number, width in ((1, 128), (2, 64)):
        body = layers.relu(layers.dense(body, width, f"fc{number}"))
    return layers.model(inputs, layers.dense(body, request.classes, "fc3"), request)
