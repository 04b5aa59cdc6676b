"""Predicts with an exported model of PyTorch: a file of safetensors, or of TorchScript.

Imports PyTorch.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from imagenet_workloads.errors import InputError
from imagenet_workloads.exported_files import format_of
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.pytorch.checkpoint_files import load_network


class ModulePredictor:
    """A network on the CPU; implements `Predictor`."""

    def __init__(self, network: nn.Module, classes: int, origin: str) -> None:
        self._network, self.classes, self.origin = network, classes, origin

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            scores = self._network(torch.from_numpy(images))
            found: npt.NDArray[np.float32] = torch.softmax(scores, dim=1).numpy()
        return found


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> ModulePredictor:
    """Load the file that result.json names."""
    return _load(folder / files.file_name("weights"), image_shape)


def load_exported(
    exported: Path, folder: Path, files: Fields, image_shape: tuple[int, int, int]
) -> ModulePredictor:
    """Load a file of safetensors or TorchScript."""
    if format_of(exported) == "safetensors":
        return _load(exported, image_shape)
    network = load_torchscript(exported)
    try:
        with torch.inference_mode():
            classes = network(torch.zeros(1, *image_shape)).shape[1]
    except RuntimeError as error:
        raise InputError(f"{exported}: takes no images of {image_shape}: {_last(error)}") from error
    return ModulePredictor(network, classes, str(exported))


def load_torchscript(path: Path) -> Any:
    """Load a file of TorchScript; InputError if it is none."""
    try:
        with warnings.catch_warnings(action="ignore"):  # PyTorch has deprecated the format.
            return torch.jit.load(path)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{path}: cannot be loaded as TorchScript: {_last(error)}") from error


def _last(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]


def _load(path: Path, image_shape: tuple[int, int, int]) -> ModulePredictor:
    network, request = load_network(path)
    if request.image_shape != image_shape:
        raise InputError(f"{path}: takes images of {request.image_shape}, not {image_shape}")
    return ModulePredictor(network, request.classes, str(path))
