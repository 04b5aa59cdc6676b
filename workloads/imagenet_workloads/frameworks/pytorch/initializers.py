"""Initial values of a network, drawn as MXNet's initializers of the same names draw them.

They depend on the seed alone, so every process draws the same. Imports PyTorch.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from imagenet_spec.program.train import Options
from imagenet_workloads.frameworks.pytorch.networks import TIMM

_Draw = Callable[[torch.Tensor, torch.Generator], object]

# MXNet's MSRAPrelu for its default slope, 0.25.
_PRELU = 2.0 / (1.0 + 0.25**2)


def _msra(weight: torch.Tensor, generator: torch.Generator) -> object:
    received = weight[0, 0].numel()
    fan = (weight.shape[0] + weight.shape[1]) * received / 2
    return nn.init.normal_(weight, 0.0, math.sqrt(_PRELU / fan), generator)


MAKERS: Mapping[str, _Draw] = {
    "he": lambda weight, drawn: nn.init.kaiming_normal_(weight, generator=drawn),
    "xavier": lambda weight, drawn: nn.init.xavier_uniform_(weight, generator=drawn),
    "msra": _msra,
    "orthogonal": lambda weight, drawn: nn.init.orthogonal_(weight, 1.414, drawn),
    "normal": lambda weight, drawn: nn.init.normal_(weight, 0.0, 0.01, drawn),
    "uniform": lambda weight, drawn: nn.init.uniform_(weight, -0.07, 0.07, drawn),
    "one": lambda weight, drawn: nn.init.ones_(weight),
    "zero": lambda weight, drawn: nn.init.zeros_(weight),
}


def initialize(options: Options, network: nn.Module) -> None:
    """Draw every weight of convolutions and dense layers; their biases are zero.

    BatchNorm keeps PyTorch's values. `default` is the initializer of MXNet's example for the
    network; a network of timm keeps the values that timm has drawn.
    """
    name = options.model.initializer
    if name == "default" and options.model.network.startswith(TIMM):
        return
    if name == "default":
        name = {"alexnet": "normal", "vgg": "xavier"}.get(options.model.network, "he")
    generator = torch.Generator().manual_seed(options.cluster.seed)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            MAKERS[name](module.weight, generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
