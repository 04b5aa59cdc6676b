"""The networks that PyTorch trains: a family, a depth and an image size, checked.

Most are torchvision's, and `timm/NAME` is timm's network NAME. `resnet` is torchvision's ResNet
v1.5, and for small images the network of MXNet's CIFAR experiments; `resnet-9` learns CIFAR-10 in
few epochs. Imports no PyTorch: `families` builds the networks, and imports it.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from imagenet_spec.program.train import SMALL_IMAGE, ModelOptions
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.networks import Family, NetworkRequest, find_builder

FAMILIES: Mapping[str, Family] = {
    "alexnet": Family("alexnet", smallest=64),
    "densenet": Family("densenet", (121, 161, 169, 201), smallest=32),
    "inception-v3": Family("inception_v3", smallest=75),
    "lenet": Family("lenet", smallest=16, has_fixed_input=True),
    "mlp": Family("mlp", has_fixed_input=True),
    "mobilenet-v2": Family("mobilenet_v2"),
    "resnet": Family("resnet", (18, 34, 50, 101, 152)),
    "resnet-9": Family("resnet_9", smallest=8, has_fixed_input=True),
    "squeezenet": Family("squeezenet", smallest=48),
    "vgg": Family("vgg", (11, 13, 16, 19), smallest=32),
    "vgg-bn": Family("vgg_bn", (11, 13, 16, 19), smallest=32),
}


TIMM = "timm/"
"""The beginning of the names of timm's networks."""


def build(request: NetworkRequest) -> Any:
    """Build the module of a request, from images (N, channels, height, width) to scores."""
    is_of_timm = request.network.startswith(TIMM)
    # A name that is wrong is told without PyTorch.
    builder = "" if is_of_timm else find_builder(request, FAMILIES, "PyTorch")
    families = importlib.import_module(f"{__package__}.families")
    if is_of_timm:
        return families.timm_network(request, request.network.removeprefix(TIMM))
    return getattr(families, builder)(request)


def sizes_mistake(model: ModelOptions) -> str | None:
    """Say why a network cannot take images of the sizes asked for; None if it can.

    Of timm's networks only timm knows that: `require_sizes`.
    """
    family = FAMILIES.get(model.network)
    named = [(f"--image-sizes {one}", one.size) for one in model.image_sizes]
    if model.validation_size is not None:
        named.append((f"--validation-size {model.validation_size}", model.validation_size))
    if family is None or not named:
        return None
    option = named[0][0].partition(" ")[0]
    if family.has_fixed_input:
        return f"argument {option}: {_has_fixed_input(model.network)}"
    for written, size in named:
        if size < family.smallest:
            return (
                f"argument {written}: {model.network} takes images of at least {family.smallest} "
                "pixels a side"
            )
        if model.network == "resnet" and (size <= SMALL_IMAGE) != (
            model.image_shape[1] <= SMALL_IMAGE
        ):
            return (
                f"argument {written}: up to {SMALL_IMAGE} pixels, resnet is another network; write "
                "--image-shape and all sizes on the same side of that"
            )
    return None


def require_sizes(model: ModelOptions) -> None:
    """Refuse several sizes for a network of timm that has a fixed input; needs PyTorch."""
    if not model.network.startswith(TIMM) or not (model.image_sizes or model.validation_size):
        return
    families = importlib.import_module(f"{__package__}.families")
    if families.timm_has_fixed_input(model.network.removeprefix(TIMM)):
        name = "image-sizes (model.imageSizes)"
        if not model.image_sizes:
            name = "validation-size (model.validationSize)"
        raise InputError(f"--{name}: {_has_fixed_input(model.network)}")


def _has_fixed_input(network: str) -> str:
    return (
        f"{network} has a fixed input, so its images have one size, that of --image-shape "
        "(model.imageShape)"
    )
