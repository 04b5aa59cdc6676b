"""The networks that TensorFlow trains: a family, a depth and an image size, checked.

Import-light: `families` builds them, and imports TensorFlow.
"""

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.networks import SMALL_IMAGE, NetworkRequest, depth


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        builder: function of `families` that makes the Keras model.
        depths: those it comes in; none for a single one.
        smallest: shortest side of an image that it takes, in pixels.
    """

    builder: str
    depths: tuple[int, ...] = ()
    smallest: int = 1


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
    """Build the Keras model that a request asks for.

    Raises:
        InputError: unknown family or depth, or images that are too small.
    """
    family = FAMILIES.get(request.network)
    if family is None:
        near = difflib.get_close_matches(request.network, FAMILIES, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? TensorFlow has" if near else "TensorFlow has"
        raise InputError(
            f"--network: {request.network!r} is unknown; {hint}: {', '.join(sorted(FAMILIES))}"
        )
    builder = family.builder
    if builder == "resnet" and request.image_shape[1] <= SMALL_IMAGE:
        builder = "resnet_cifar"
    elif family.depths:
        depth(request, family.depths)
    if min(request.image_shape[1:]) < family.smallest:
        raise InputError(
            f"--image-shape: {request.network} takes images of at least {family.smallest} pixels a "
            f"side, not {request.image_shape[1]}x{request.image_shape[2]}"
        )
    families = importlib.import_module(f"{__package__}.families")
    return getattr(families, builder)(request)
