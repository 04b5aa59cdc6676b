"""Inception v3 (Szegedy et al. 2015), as Keras has it."""

from typing import Any

import tensorflow as tf

from imagenet_workloads.train.request import Request


def build(request: Request) -> Any:
    """Build the network; it was made for 299 pixels."""
    channels, height, width = request.image_shape
    return tf.keras.applications.InceptionV3(
        weights=None,
        input_shape=(height, width, channels),
        classes=request.classes,
        classifier_activation=None,
    )
