"""Loads the weights of --pretrained into a network. Imports PyTorch.

A file of safetensors or of `torch.save` has the values of a state_dict by their names: one of
torchvision's or timm's, or a model that this program exported. The layer that scores the classes
may have another number of them; it then keeps its random values. Nothing but tensors is unpickled.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import nn

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch.checkpoint_files import read
from imagenet_workloads.train.networks import NetworkRequest

_log = logging.getLogger(__name__)

_Values = Mapping[str, torch.Tensor]

# Training programs put the state_dict below one of these.
_WRAPPERS = ("state_dict", "model")
# BatchNorm counts from 0 if a file has no number; those of PyTorch before 0.4.1 have none.
_OPTIONAL = ".num_batches_tracked"
# Names in a message.
_NAMED = 3


def load(path: Path, network: nn.Module, request: NetworkRequest) -> None:
    """Load a file's values, but for a head of another number of classes.

    Raises:
        InputError: the file is missing or damaged, or does not fit the network.
    """
    values, own = _read(path), network.state_dict()
    head = _other_head(values, own, request.classes)
    if problem := _misfit({**values, **head}, own):
        raise InputError(
            f"--pretrained (model.pretrained): {path} does not fit {request.network}: {problem}"
        )
    network.load_state_dict({**values, **head})
    if head:
        layer = next(iter(head)).rpartition(".")[0]
        classes = len(values[next(iter(head))])
        _log.info(
            "%s is new, for %d classes: %s has %d", layer, request.classes, path.name, classes
        )
    _log.info("weights are those of %s", path)


def _read(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        return read(path)[0]
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(
            f"--pretrained (model.pretrained): {path} cannot be read: {error.strerror}"
        ) from None
    except (UnpicklingError, RuntimeError, EOFError, ValueError, KeyError):
        raise InputError(
            f"--pretrained (model.pretrained): {path} is no file of tensors alone; write "
            "torch.save(network.state_dict(), …), or safetensors"
        ) from None
    wrapped = [found[name] for name in _WRAPPERS if _is_mapping(found) and name in found]
    values = next(filter(_is_mapping, wrapped), found)
    if not _is_mapping(values) or not all(map(torch.is_tensor, values.values())):
        raise InputError(
            f"--pretrained (model.pretrained): {path} has no state_dict: tensors by their names"
        )
    return dict(values)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _other_head(values: _Values, own: _Values, classes: int) -> dict[str, torch.Tensor]:
    """Return the network's own values of a head that scores other classes in the file."""
    other = {
        name: value
        for name, value in own.items()
        if name in values
        and values[name].dim() == value.dim() > 0
        and values[name].shape[1:] == value.shape[1:]
        and len(value) == classes != len(values[name])
    }
    layers = {name.rpartition(".")[0] for name in other}
    return other if len(layers) == 1 else {}


def _misfit(values: _Values, own: _Values) -> str | None:
    """Return how a file differs from a network, or None."""
    missing = [name for name in own if name not in values and not name.endswith(_OPTIONAL)]
    surplus = [name for name in values if name not in own]
    shaped = [
        f"{name} as {_shape(values[name])} instead of {_shape(value)}"
        for name, value in own.items()
        if name in values and values[name].shape != value.shape
    ]
    parts = [
        f"{verb} {_some(found)}"
        for verb, found in (
            ("it lacks", missing),
            ("it has also", surplus),
            ("it has", shaped),
        )
        if found
    ]
    return "; ".join(parts) or None


def _shape(value: torch.Tensor) -> str:
    return "x".join(map(str, value.shape)) or "a number"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
