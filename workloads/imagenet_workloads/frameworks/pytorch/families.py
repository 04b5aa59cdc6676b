"""The families of networks that PyTorch trains, as modules from images to scores.

One function a family, called by `networks.build`. torchvision has most of them; those of small
images have the layers and names of MXNet's networks. Imports PyTorch, and torchvision or timm where
needed.
"""

import difflib
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from imagenet_spec.program.train import Options
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch.networks import TIMM
from imagenet_workloads.train.networks import NetworkRequest, initializer_of, plan_residual


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
        first = torch.relu(self.bn1(images))
        shortcut: torch.Tensor = images if self.shortcut is None else self.shortcut(first)
        added: torch.Tensor = shortcut + self.branch(first)
        return added


def resnet_cifar(request: NetworkRequest) -> nn.Module:
    """Build the network; depths such as 8, 20, 56, 110 and 164."""
    planned = plan_residual(request)
    units: OrderedDict[str, nn.Module] = OrderedDict()
    before = planned.first
    for stage, width in enumerate(planned.filters, start=1):
        for number in range(1, planned.units + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            units[f"stage{stage}_unit{number}"] = Unit(before, width, stride, planned.bottleneck)
            before = width
    channels = request.image_shape[0]
    last = planned.filters[-1]
    return nn.Sequential(
        OrderedDict(
            bn_data=nn.BatchNorm2d(channels, eps=2e-5, affine=False),
            conv0=_convolution(channels, planned.first, 3, 1),
            stages=nn.Sequential(units),
            bn1=nn.BatchNorm2d(last, eps=2e-5),
            relu1=nn.ReLU(),
            pool1=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc1=nn.Linear(last, request.classes),
        )
    )


def _convolution(before: int, filters: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, filters, size, stride, padding=size // 2, bias=False)


class Residual9(nn.Module):  # type: ignore[misc]
    """Two blocks of ResNet-9, whose output is added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(_block_9(width, width), _block_9(width, width))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = images + self.branch(images)
        return added


class Scale(nn.Module):  # type: ignore[misc]
    """Multiplies scores by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
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


def timm_has_fixed_input(name: str) -> bool:
    """Whether a network of timm is made for one size of images; false for a wrong name."""
    import timm

    return timm.is_model(name) and bool(timm.get_pretrained_cfg(name).fixed_input_size)


def timm_network(request: NetworkRequest, name: str) -> nn.Module:
    """Build a network of timm, with random values; nothing is downloaded.

    InputError: timm has no such network, or cannot build it for the images.
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
    """Build the network of torchvision whose name has the depth in braces."""
    from torchvision import models

    named = name.format(request.num_layers)
    network: nn.Module = models.get_model(named, num_classes=request.classes, **more)
    channels = request.image_shape[0]
    if channels == 3:
        return network
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
    return network


# Their stride is in the 3x3 convolution (v1.5).
resnet = partial(_of_torchvision, "resnet{}")
vgg = partial(_of_torchvision, "vgg{}", init_weights=False)
vgg_bn = partial(_of_torchvision, "vgg{}_bn", init_weights=False)
densenet = partial(_of_torchvision, "densenet{}")
alexnet = partial(_of_torchvision, "alexnet")
squeezenet = partial(_of_torchvision, "squeezenet1_1")
mobilenet_v2 = partial(_of_torchvision, "mobilenet_v2")
# Without its auxiliary classifier; it is designed for 299 pixels.
inception_v3 = partial(_of_torchvision, "inception_v3", aux_logits=False, init_weights=False)

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
    """Draw the weights of convolutions and dense layers as MXNet's initializers of these names do.

    They depend on the seed alone, so every process draws the same. Biases are zero.
    BatchNorm keeps PyTorch's values. `default` is the initializer of MXNet's example for the
    network; a network of timm keeps the values that timm has drawn.
    """
    if options.model.initializer == "default" and options.model.network.startswith(TIMM):
        return
    make = MAKERS[initializer_of(options.model)]
    generator = torch.Generator().manual_seed(options.cluster.seed)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            make(module.weight, generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


Layers = Callable[..., Any]
_CONTAINERS = (nn.Sequential, nn.ModuleDict)
_POOLING = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)


def checkpoint_activations(
    network: nn.Module, name: str
) -> Callable[[], AbstractContextManager[None]]:
    """Let the blocks of a network compute their activations again; return a context for that.

    The context surrounds each backward pass, whose second forward pass would update the buffers
    of layers again, such as BatchNorm's statistics.

    timm knows the blocks of its networks. Blocks of any other are modules with layers, and the
    layers of a sequence to each of its poolings. The weights and their names stay; copies of the
    network would share its blocks. InputError: timm cannot do this with its network.
    """
    if not hasattr(network, "set_grad_checkpointing"):
        _checkpoint_blocks(network)
        return partial(_preserved_buffers, network)
    try:
        network.set_grad_checkpointing(True)
    except AssertionError as error:
        raise InputError(
            f"--activation-checkpointing (training.activationCheckpointing): timm does not have "
            f"it for {name.removeprefix('timm/')}; leave it out"
        ) from error
    return partial(_preserved_buffers, network)


@contextmanager
def _preserved_buffers(network: nn.Module) -> Iterator[None]:
    """Let the layers of a network update copies of its buffers; then restore their own."""
    kept = [
        (module, name, buffer)
        for module in network.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    for module, name, buffer in kept:
        setattr(module, name, buffer.clone())
    try:
        yield
    finally:
        for module, name, buffer in kept:
            setattr(module, name, buffer)


def _checkpoint_blocks(module: nn.Module) -> None:
    parts = list(module.children())
    if isinstance(module, nn.Sequential) and not any(_has_layers(part) for part in parts):
        # A segment ends with each pooling.
        segments: list[list[Layers]] = [[]]
        for layer in parts:
            segments[-1].append(layer)
            if isinstance(layer, _POOLING):
                segments.append([])
        module.forward = _in_order([_checkpointed(_in_order(one)) for one in segments if one])
        return
    for part in parts:
        if isinstance(part, _CONTAINERS):
            _checkpoint_blocks(part)
        elif _has_layers(part):
            part.forward = _checkpointed(part.forward)


def _has_layers(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


def _in_order(layers: list[Layers]) -> Layers:
    def forward(value: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            value = layer(value)
        return value

    return forward


def _checkpointed(forward: Layers) -> Layers:
    def run(value: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(value)
        # A dense block appends to the list that it gives to its layers.
        given = list(value) if isinstance(value, list) else value
        return checkpoint(forward, given, use_reentrant=False)

    return run
