"""The networks that PyTorch trains: a family, a depth and an image size, checked.

Most are torchvision's, and `timm/NAME` is timm's network NAME. `resnet` is torchvision's ResNet
v1.5, and for small images the network of MXNet's CIFAR experiments; `resnet-9` learns CIFAR-10 in
few epochs. Imports no PyTorch: `families` builds the networks, and imports it.
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
    "mobilenet-v2": Family("mobilenet_v2"),
    "resnet": Family("resnet", (18, 34, 50, 101, 152)),
    "resnet-9": Family("resnet_9", smallest=8),
    "squeezenet": Family("squeezenet", smallest=48),
    "vgg": Family("vgg", (11, 13, 16, 19), smallest=32),
    "vgg-bn": Family("vgg_bn", (11, 13, 16, 19), smallest=32),
}


TIMM = "timm/"
"""The beginning of the names of timm's networks."""


def build(request: NetworkRequest) -> Any:
    """Build the module of a request, from images (N, channels, height, width) to scores.

    Raises:
        InputError: unknown family or depth, or images that are too small.
    """
    is_of_timm = request.network.startswith(TIMM)
    # A name that is wrong is told without PyTorch.
    builder = "" if is_of_timm else find_builder(request, FAMILIES, "PyTorch")
    families = importlib.import_module(f"{__package__}.families")
    if is_of_timm:
        return families.timm_network(request, request.network.removeprefix(TIMM))
    return getattr(families, builder)(request)
