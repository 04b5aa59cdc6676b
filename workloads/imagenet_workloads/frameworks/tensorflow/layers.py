"""Layers as MXNet's networks have them, for Keras: the same padding, the same names.

`weights` calls a layer's variables as MXNet calls them, so the names given here are those of
MXNet's symbols wherever there is an equal one. Imports TensorFlow.
"""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.networks import NetworkRequest

keras = tf.keras


def images(request: NetworkRequest) -> Any:
    """Give the network's input: height, width, channels."""
    channels, height, width = request.image_shape
    return keras.Input((height, width, channels), name="data")


def model(inputs: Any, scores: Any, request: NetworkRequest) -> Any:
    """End a network, in scores."""
    return keras.Model(inputs, scores, name=request.network.replace("-", "_"))


def flattened(body: Any) -> Any:
    """Flatten in MXNet's order, channels first, so that weights behind it are the same."""
    return keras.layers.Flatten()(keras.layers.Permute((3, 1, 2))(body))


def dense(body: Any, units: int, name: str | None = None) -> Any:
    """Add a fully connected layer."""
    return keras.layers.Dense(units, name=name)(body)


def convolution(
    body: Any,
    filters: int,
    size: int,
    stride: int = 1,
    pad: int | None = None,
    bias: bool = False,
    name: str | None = None,
) -> Any:
    """Add a convolution that pads both sides alike, by half the kernel unless `pad` is given."""
    body = padded(body, size // 2 if pad is None else pad)
    return keras.layers.Conv2D(filters, size, stride, use_bias=bias, name=name)(body)


def padded(body: Any, pad: int, value: float = 0.0) -> Any:
    """Pad height and width on both sides."""
    if not pad:
        return body
    if value:
        sides = [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        return keras.layers.Lambda(lambda x: tf.pad(x, sides, constant_values=value))(body)
    return keras.layers.ZeroPadding2D(pad)(body)


def normalized(
    body: Any,
    name: str | None = None,
    epsilon: float = 2e-5,
    scale: bool = True,
    center: bool = True,
) -> Any:
    """Add BatchNorm with MXNet's momentum; each replica has its own moving statistics."""
    return keras.layers.BatchNormalization(
        momentum=0.9, epsilon=epsilon, scale=scale, center=center, name=name
    )(body)


def relu(body: Any) -> Any:
    """Add a rectifier."""
    return keras.layers.ReLU()(body)


def largest(body: Any, size: int, stride: int, pad: int = 0) -> Any:
    """Add max pooling; what is padded is never the largest."""
    return keras.layers.MaxPool2D(size, stride)(padded(body, pad, body.dtype.min))


def average(body: Any) -> Any:
    """Average each channel over the whole image."""
    return keras.layers.GlobalAveragePooling2D()(body)
