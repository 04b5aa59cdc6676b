"""Writes a model of PyTorch as safetensors, TorchScript or ONNX. Imports PyTorch.

All files take images, (images, channels, height, width), that are normalised as result.json says,
and any number of them. Their outputs are scores; softmax gives probabilities. A file of safetensors
has only values, and is the exported model itself:

    network = torchvision.models.resnet50()
    network.load_state_dict(safetensors.torch.load_file("model.safetensors"))

ONNX is written by torch.export. TorchScript, which PyTorch has deprecated, is a frozen trace.
"""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from imagenet_workloads.errors import InputError
from imagenet_workloads.exported_files import INPUT, SCORES, OnnxModel
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.pytorch.checkpoint_files import load_network
from imagenet_workloads.frameworks.pytorch.predictor import load_torchscript

Images = npt.NDArray[np.float32]
# Traced with more than one image, so that no operator takes the number for fixed.
_TRACED = 2


class ModuleExporter:
    """An exported model; implements `Exporter`."""

    def __init__(self, path: Path, network: nn.Module, image_shape: tuple[int, int, int]) -> None:
        self._path, self._network, self._shape = path, network, image_shape
        self._example = torch.zeros(_TRACED, *image_shape)

    def write(self, format: str, path: Path) -> None:
        match format:
            case "safetensors":
                shutil.copyfile(self._path, path)
            case "torchscript":
                with _without_warnings(), torch.no_grad():
                    torch.jit.freeze(torch.jit.trace(self._network, self._example)).save(path)
            case "onnx":
                with _without_warnings():
                    torch.onnx.export(
                        self._network,
                        (self._example,),
                        path,
                        input_names=[INPUT],
                        output_names=[SCORES],
                        dynamic_shapes=({0: torch.export.Dim("images")},),
                        dynamo=True,
                        external_data=False,
                        verbose=False,
                    )

    def outputs(self, images: Images) -> npt.NDArray[Any]:
        return _scores(self._network, images)

    def outputs_of(self, format: str, path: Path, images: Images) -> npt.NDArray[Any]:
        if format == "onnx":
            return OnnxModel(path, self._shape).outputs(images)
        if format == "torchscript":
            return _scores(load_torchscript(path), images)
        return _scores(load_network(path)[0], images)


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> ModuleExporter:
    """Load the file that result.json names."""
    path = folder / files.file_name("weights")
    network, request = load_network(path)
    if request.image_shape != image_shape:
        raise InputError(f"{path}: takes images of {request.image_shape}, not {image_shape}")
    return ModuleExporter(path, network, image_shape)


def _scores(network: Any, images: Images) -> npt.NDArray[Any]:
    with torch.inference_mode():
        found: npt.NDArray[Any] = network(torch.from_numpy(images)).numpy()
        return found


def _without_warnings() -> warnings.catch_warnings:
    """Silence that TorchScript is deprecated, and what the exporter says of its own parts."""
    return warnings.catch_warnings(action="ignore")
