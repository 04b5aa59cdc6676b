"""MobileNet 1.0 (Howard et al. 2017), as in MXNet's zoo."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers

# Filters and stride of each separable convolution.
PLAN = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
EPSILON = 1e-5


def build(request: Request) -> Any:
    """Build the network."""
    inputs = layers.images(request)
    body = _activated(layers.convolution(inputs, 32, 3, 2, name="conv0"), "bn0")
    for number, (filters, stride) in enumerate(PLAN, start=1):
        body = layers.padded(body, 1)
        body = tf.keras.layers.DepthwiseConv2D(3, stride, use_bias=False, name=f"conv{number}_dw")(
            body
        )
        body = _activated(body, f"bn{number}_dw")
        body = layers.convolution(body, filters, 1, name=f"conv{number}_pw")
        body = _activated(body, f"bn{number}_pw")
    scores = layers.dense(layers.average(body), request.classes, "fc1")
    return layers.model(inputs, scores, request)


def _activated(body: Any, name: str) -> Any:
    return layers.relu(layers.normalized(body, name, EPSILON))
