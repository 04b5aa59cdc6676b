"""The networks that TensorFlow trains: a family, a depth and an image size, checked.

Imports no TensorFlow: `families` builds the networks, and imports it.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from imagenet_workloads.train.networks import Family, NetworkRequest, find_builder

FAMILIES: Mapping[str, Family] = {
    "alexnet": Family("alexnet", smallest=64),
    "densenet": Family("densenet", (121, 161, 169, 201), smallest=32),
    "inception-v3": Family("inception_v3", smallest=75),
    "lenet": Family("lenet", smallest=16),
    "mlp": Family("mlp"),
    "mobilenet": Family("mobilenet"),
    "resnet": Family("resnet", (18, 34, 50, 101, 152)),
    "squeezenet": Family("squeezenet", smallest=48),
    "vgg": Family("vgg", (11, 13, 16, 19), smallest=32),
}


def build(request: NetworkRequest) -> Any:
    """Build the Keras model of a request."""
    builder = find_builder(request, FAMILIES, "TensorFlow")
    families = importlib.import_module(f"{__package__}.families")
    return getattr(families, builder)(request)
