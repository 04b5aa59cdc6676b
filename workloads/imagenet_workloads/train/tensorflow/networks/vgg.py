"""VGG (Simonyan and Zisserman 2014), of 11, 13, 16 or 19 layers."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers

# Convolutions of each stage.
PLANS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
FILTERS = (64, 128, 256, 512, 512)


def build(request: Request) -> Any:
    """Build the network of a depth in PLANS."""
    inputs = body = layers.images(request)
    for stage, (count, filters) in enumerate(
        zip(PLANS[request.num_layers or 0], FILTERS, strict=True), start=1
    ):
        for number in range(1, count + 1):
            body = layers.convolution(body, filters, 3, bias=True, name=f"conv{stage}_{number}")
            body = layers.relu(body)
        body = layers.largest(body, 2, 2)
    body = layers.flattened(body)
    for name in ("fc6", "fc7"):
        body = tf.keras.layers.Dropout(0.5)(layers.relu(layers.dense(body, 4096, name)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc8"), request)
