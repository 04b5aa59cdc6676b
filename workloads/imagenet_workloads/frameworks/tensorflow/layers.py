"""The layers of MXNet's networks for Keras: the same padding, the same names.

`weights` uses MXNet's names for a layer's variables. So the names here are those of MXNet's symbols
if there is an equal one. Imports TensorFlow.
"""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.networks import NetworkRequest

keras = tf.keras


def images(request: NetworkRequest) -> Any:
    """Return the network's input: height, width, channels."""
    channels, height, width = request.image_shape
    return keras.Input((height, width, channels), name="data")


def model(inputs: Any, scores: Any, request: NetworkRequest) -> Any:
    """End a network with scores."""
    return keras.Model(inputs, scores, name=request.network.replace("-", "_"))


def flattened(body: Any) -> Any:
    """Flatten in MXNet's order, channels first, so the next layer's weights are the same."""
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
    """Add a convolution with equal padding on both sides, by default half the kernel."""
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
    """Add max pooling; padding is never the maximum."""
    return keras.layers.MaxPool2D(size, stride)(padded(body, pad, body.dtype.min))


def average(body: Any) -> Any:
    """Average each channel over the whole image."""
    return keras.layers.GlobalAveragePooling2D()(body)


class DropoutSeed:
    """Two whole numbers that a step sets; Keras does not save them, as it would a layer's array."""

    def __init__(self) -> None:
        self.value = tf.Variable([0, 0], trainable=False, dtype=tf.int64)


class Dropout(tf.keras.layers.Layer):  # type: ignore[misc]
    """Dropout that draws from a seed; Keras's own has a state that nothing saves.

    `rate` is the share of values that become 0. `seed` is that of the next step; each device draws
    other numbers from it.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.seed = DropoutSeed()

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not training:
            return inputs
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        layer_and_replica = self.seed.value[1] + tf.cast(replica, tf.int64) * 2**16
        seed = tf.stack([self.seed.value[0], layer_and_replica])
        return tf.nn.experimental.stateless_dropout(inputs, self.rate, seed)


def dropout(body: Any) -> Any:
    """Drop half of the values in training."""
    return Dropout(0.5)(body)
