"""Predicts with an exported model of PyTorch: a file of safetensors. Imports PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.pytorch.checkpoint_files import load_network


class ModulePredictor:
    """A network on the CPU; implements `Predictor`."""

    def __init__(self, network: nn.Module, classes: int, origin: str) -> None:
        """Take a network in evaluation mode."""
        self._network, self.classes, self.origin = network, classes, origin

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the probabilities."""
        with torch.inference_mode():
            scores = self._network(torch.from_numpy(images))
            found: npt.NDArray[np.float32] = torch.softmax(scores, dim=1).numpy()
        return found


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> ModulePredictor:
    """Load the file that result.json names.

    Raises:
        InputError: it is missing or damaged, or takes images of another shape.
    """
    path = folder / files.file_name("weights")
    network, request = load_network(path)
    if request.image_shape != image_shape:
        raise InputError(f"{path}: takes images of {request.image_shape}, not {image_shape}")
    return ModulePredictor(network, request.classes, str(path))
