"""From a tf.train.Example to pixels and label, and from pixels to a network's input.

The arithmetic is that of `imagenet-predict`, which is MXNet's: shorter edge, central crop, mean and
standard deviation. Imports TensorFlow.
"""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.data import Inputs

_FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record: Any, channels: int) -> tuple[Any, Any]:
    """Decode a record: pixels (height, width, channels) in 0..255, and the label from 0.

    In the records labels begin at 1, as ImageNet's converters write them.
    """
    found = tf.io.parse_single_example(record, _FEATURES)
    pixels = tf.io.decode_image(found["image/encoded"], channels, expand_animations=False)
    pixels = tf.ensure_shape(pixels, (None, None, channels))
    return tf.cast(pixels, tf.float32), tf.cast(found["image/class/label"] - 1, tf.float32)


def resized(pixels: Any, height: Any, width: Any) -> Any:
    """Resize to whole grey levels, as OpenCV does."""
    return tf.clip_by_value(tf.round(tf.image.resize(pixels, (height, width))), 0.0, 255.0)


def at_least(pixels: Any, height: int, width: int) -> Any:
    """Enlarge an image that is smaller than a crop of it."""
    sides = tf.shape(pixels)[:2]
    return tf.cond(
        tf.reduce_all(sides >= (height, width)),
        lambda: pixels,
        lambda: _enlarged(pixels, sides, height, width),
    )


def _enlarged(pixels: Any, sides: Any, height: int, width: int) -> Any:
    wanted = tf.constant((height, width), tf.float32)
    scale = tf.reduce_max(wanted / tf.cast(sides, tf.float32))
    larger = tf.cast(tf.round(tf.cast(sides, tf.float32) * scale), tf.int32)
    larger = tf.maximum(larger, (height, width))
    return resized(pixels, larger[0], larger[1])


def shorter_edge(pixels: Any, edge: int) -> Any:
    """Resize the shorter edge; the longer one is rounded down."""
    height, width = tf.shape(pixels)[0], tf.shape(pixels)[1]
    shorter = tf.minimum(height, width)
    return resized(pixels, edge * height // shorter, edge * width // shorter)


def central(pixels: Any, inputs: Inputs) -> Any:
    """Prepare an image for validation."""
    _, height, width = inputs.image_shape
    if inputs.resize:
        pixels = shorter_edge(pixels, inputs.resize)
    pixels = at_least(pixels, height, width)
    top = (tf.shape(pixels)[0] - height) // 2
    left = (tf.shape(pixels)[1] - width) // 2
    return pixels[top : top + height, left : left + width]


def normalized(pixels: Any, inputs: Inputs) -> Any:
    """Subtract the mean, divide by the standard deviation."""
    channels, height, width = inputs.image_shape
    pixels = tf.ensure_shape(pixels, (height, width, channels))
    return (pixels - inputs.mean[:channels]) / inputs.std[:channels]
