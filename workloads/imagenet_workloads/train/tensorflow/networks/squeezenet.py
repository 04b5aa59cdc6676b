"""SqueezeNet 1.1 (Iandola et al. 2016), as in MXNet's zoo."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers

# Squeezed and expanded filters of each fire module; a pooling comes before those marked.
FIRES = (
    (16, 64, True),
    (16, 64, False),
    (32, 128, True),
    (32, 128, False),
    (48, 192, True),
    (48, 192, False),
    (64, 256, False),
    (64, 256, False),
)


def build(request: Request) -> Any:
    """Build the network."""
    inputs = layers.images(request)
    body = layers.relu(layers.convolution(inputs, 64, 3, 2, 0, True, "conv1"))
    for number, (squeezed, expanded, pools) in enumerate(FIRES, start=2):
        if pools:
            # The last pixel of an odd side counts as well.
            body = tf.keras.layers.MaxPool2D(3, 2, padding="same")(body)
        name = f"fire{number}"
        body = layers.relu(layers.convolution(body, squeezed, 1, bias=True, name=f"{name}_squeeze"))
        branches = [
            layers.relu(layers.convolution(body, expanded, size, bias=True, name=f"{name}_{size}"))
            for size in (1, 3)
        ]
        body = tf.keras.layers.Concatenate()(branches)
    body = tf.keras.layers.Dropout(0.5)(body)
    body = layers.relu(layers.convolution(body, request.classes, 1, bias=True, name="conv10"))
    return layers.model(inputs, layers.average(body), request)
