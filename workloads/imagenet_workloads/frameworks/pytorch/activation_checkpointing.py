"""Activation checkpointing: the backward pass computes a block's activations again.

Only the inputs of blocks stay in memory between both passes (Chen et al. 2016). Nothing else
changes: dropout draws the same numbers again, and BatchNorm's statistics are updated in the first
pass alone. MXNet's counterpart is MXNET_BACKWARD_DO_MIRROR. Imports PyTorch.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from imagenet_workloads.errors import InputError

Layers = Callable[..., Any]
_CONTAINERS = (nn.Sequential, nn.ModuleDict)
_POOLING = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)


def apply(network: nn.Module, name: str) -> Callable[[], AbstractContextManager[None]]:
    """Let the blocks of a network compute their activations again; return a context for that.

    The context surrounds each backward pass, whose second forward pass would update the buffers
    of layers again, such as BatchNorm's statistics.

    timm knows the blocks of its networks. Blocks of any other are modules with layers, and the
    layers of a sequence to each of its poolings.

    Args:
        network: whose weights and their names stay; copies of it would share its blocks.
        name: of the network, for the error.

    Raises:
        InputError: it is timm's, and timm cannot do this with it.
    """
    if not hasattr(network, "set_grad_checkpointing"):
        _apply_to(network)
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


def _apply_to(module: nn.Module) -> None:
    parts = list(module.children())
    if isinstance(module, nn.Sequential) and not any(_has_layers(part) for part in parts):
        module.forward = _in_order([_checkpointed(one) for one in _segments(parts)])
        return
    for part in parts:
        if isinstance(part, _CONTAINERS):
            _apply_to(part)
        elif _has_layers(part):
            part.forward = _checkpointed(part.forward)


def _has_layers(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


def _segments(layers: list[nn.Module]) -> Iterator[Layers]:
    segment: list[nn.Module] = []
    for layer in layers:
        segment.append(layer)
        if isinstance(layer, _POOLING):
            yield _in_order(segment)
            segment = []
    if segment:
        yield _in_order(segment)


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
