"""The families of networks that PyTorch trains, as modules from images to scores.

One function a family, called by `networks.build`. torchvision has most of them; those of small
images have the layers and names of MXNet's networks. Imports PyTorch, and torchvision or timm where
needed.
"""

import difflib
from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.networks import NetworkRequest, Residual, plan_residual


def mlp(request: NetworkRequest) -> nn.Module:
    """Build layers of 128 and 64 on the flattened image."""
    channels, height, width = request.image_shape
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(channels * height * width, 128),
            relu1=nn.ReLU(),
            fc2=nn.Linear(128, 64),
            relu2=nn.ReLU(),
            fc3=nn.Linear(64, request.classes),
        )
    )


def lenet(request: NetworkRequest) -> nn.Module:
    """Build LeNet."""
    channels, *sides = request.image_shape
    # Two convolutions of 5 pixels, a pooling after each.
    height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 20, 5),
            tanh1=nn.Tanh(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(20, 50, 5),
            tanh2=nn.Tanh(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(50 * height * width, 500),
            tanh3=nn.Tanh(),
            fc2=nn.Linear(500, request.classes),
        )
    )


class Unit(nn.Module):  # type: ignore[misc]
    """A residual unit with activation before each convolution (He et al. 2016)."""

    def __init__(self, before: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            plan = [(width // 4, 1, 1), (width // 4, 3, stride), (width, 1, 1)]
        else:
            plan = [(width, 3, stride), (width, 3, 1)]
        self.bn1 = nn.BatchNorm2d(before, eps=2e-5)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        inner = before
        for number, (filters, size, step) in enumerate(plan, start=1):
            if number > 1:
                layers[f"bn{number}"] = nn.BatchNorm2d(inner, eps=2e-5)
                layers[f"relu{number}"] = nn.ReLU()
            layers[f"conv{number}"] = _convolution(inner, filters, size, step)
            inner = filters
        self.branch = nn.Sequential(layers)
        projects = stride != 1 or before != width
        self.shortcut = _convolution(before, width, 1, stride) if projects else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Add the branch to the shortcut."""
        first = torch.relu(self.bn1(images))
        shortcut: torch.Tensor = images if self.shortcut is None else self.shortcut(first)
        added: torch.Tensor = shortcut + self.branch(first)
        return added


def resnet_cifar(request: NetworkRequest) -> nn.Module:
    """Build the network; depths such as 8, 20, 56, 110 and 164."""
    planned = plan_residual(request)
    channels = request.image_shape[0]
    last = planned.filters[-1]
    return nn.Sequential(
        OrderedDict(
            bn_data=nn.BatchNorm2d(channels, eps=2e-5, affine=False),
            conv0=_convolution(channels, planned.first, 3, 1),
            stages=nn.Sequential(_units(planned)),
            bn1=nn.BatchNorm2d(last, eps=2e-5),
            relu1=nn.ReLU(),
            pool1=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc1=nn.Linear(last, request.classes),
        )
    )


def _units(planned: Residual) -> "OrderedDict[str, nn.Module]":
    units: OrderedDict[str, nn.Module] = OrderedDict()
    before = planned.first
    for stage, width in enumerate(planned.filters, start=1):
        for number in range(1, planned.units + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            units[f"stage{stage}_unit{number}"] = Unit(before, width, stride, planned.bottleneck)
            before = width
    return units


def _convolution(before: int, filters: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, filters, size, stride, padding=size // 2, bias=False)


class Residual9(nn.Module):  # type: ignore[misc]
    """Two blocks of ResNet-9, whose output is added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(_block_9(width, width), _block_9(width, width))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Add the branch to its input."""
        added: torch.Tensor = images + self.branch(images)
        return added


class Scale(nn.Module):  # type: ignore[misc]
    """Multiplies scores by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return scores * self.factor


def resnet_9(request: NetworkRequest) -> nn.Module:
    """Build the ResNet-9 of David Page's entry to DAWNBench, for images of 32 pixels.

    It has 6.6 million weights. See "How to Train Your ResNet" (myrtle.ai, 2018) and
    https://github.com/davidcpage/cifar10-fast. The last pooling covers the whole image.
    """
    channels, height, width = request.image_shape
    return nn.Sequential(
        OrderedDict(
            prep=_block_9(channels, 64),
            layer1=nn.Sequential(_block_9(64, 128), nn.MaxPool2d(2), Residual9(128)),
            layer2=nn.Sequential(_block_9(128, 256), nn.MaxPool2d(2)),
            layer3=nn.Sequential(_block_9(256, 512), nn.MaxPool2d(2), Residual9(512)),
            # Not AdaptiveMaxPool2d, which has no deterministic backward pass on a GPU.
            pool=nn.MaxPool2d((height // 8, width // 8)),
            flatten=nn.Flatten(),
            linear=nn.Linear(512, request.classes, bias=False),
            scale=Scale(0.125),
        )
    )


def _block_9(before: int, filters: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            conv=_convolution(before, filters, 3, 1), bn=nn.BatchNorm2d(filters), relu=nn.ReLU()
        )
    )


def resnet(request: NetworkRequest) -> nn.Module:
    """Build the network of a depth; its stride is in the 3x3 convolution (v1.5)."""
    return _of_torchvision(f"resnet{request.num_layers}", request)


def vgg(request: NetworkRequest) -> nn.Module:
    """Build the network of a depth."""
    return _of_torchvision(f"vgg{request.num_layers}", request, init_weights=False)


def vgg_bn(request: NetworkRequest) -> nn.Module:
    """Build the network of a depth with BatchNorm."""
    return _of_torchvision(f"vgg{request.num_layers}_bn", request, init_weights=False)


def densenet(request: NetworkRequest) -> nn.Module:
    """Build the network of a depth."""
    return _of_torchvision(f"densenet{request.num_layers}", request)


def alexnet(request: NetworkRequest) -> nn.Module:
    """Build the network."""
    return _of_torchvision("alexnet", request)


def squeezenet(request: NetworkRequest) -> nn.Module:
    """Build SqueezeNet 1.1."""
    return _of_torchvision("squeezenet1_1", request)


def mobilenet_v2(request: NetworkRequest) -> nn.Module:
    """Build the network."""
    return _of_torchvision("mobilenet_v2", request)


def inception_v3(request: NetworkRequest) -> nn.Module:
    """Build the network without its auxiliary classifier; it is designed for 299 pixels."""
    return _of_torchvision("inception_v3", request, aux_logits=False, init_weights=False)


def timm_has_fixed_input(name: str) -> bool:
    """Return whether a network of timm is made for one size of images; false for a wrong name."""
    import timm

    return timm.is_model(name) and bool(timm.get_pretrained_cfg(name).fixed_input_size)


def timm_network(request: NetworkRequest, name: str) -> nn.Module:
    """Build a network of timm, with random values; nothing is downloaded.

    Raises:
        InputError: timm is not installed, has no such network, or cannot build it for the images.
    """
    import timm

    # Also false for names such as `hf-hub:…`, which timm would look up on the network.
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "see timm.list_models()"
        raise InputError(f"--network (model.network): timm has no {name!r}; {hint}")
    channels, *sides = request.image_shape
    try:
        network: nn.Module = timm.create_model(
            name,
            pretrained=False,
            num_classes=request.classes,
            in_chans=channels,
            **({"img_size": tuple(sides)} if timm_has_fixed_input(name) else {}),
        )
    except (ArithmeticError, AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"--network (model.network): timm cannot build {name} for images of "
            f"{channels}x{sides[0]}x{sides[1]}: {error}"
        ) from error
    return network


def _of_torchvision(name: str, request: NetworkRequest, **more: Any) -> nn.Module:
    from torchvision import models

    network: nn.Module = models.get_model(name, num_classes=request.classes, **more)
    channels = request.image_shape[0]
    if channels != 3:
        _replace_first_convolution(network, channels)
    return network


def _replace_first_convolution(network: nn.Module, channels: int) -> None:
    name, first = next(
        (name, one) for name, one in network.named_modules() if isinstance(one, nn.Conv2d)
    )
    parent, _, leaf = name.rpartition(".")
    replaced = nn.Conv2d(
        channels,
        first.out_channels,
        first.kernel_size,
        first.stride,
        first.padding,
        bias=first.bias is not None,
    )
    setattr(network.get_submodule(parent), leaf, replaced)
