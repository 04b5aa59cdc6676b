"""Writes a model of TensorFlow as safetensors: the arrays of PREFIX-NNNN.npz, by MXNet's names.

It loads without TensorFlow, and so does this module:

    arrays = safetensors.numpy.load_file("model.safetensors")
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields


class ArraysExporter:
    """The arrays of a model; implements `Exporter`. Only its outputs need TensorFlow."""

    def __init__(self, folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> None:
        """Take the .npz file, and what `predictor` needs."""
        self._path = folder / files.file_name("weights")
        self._folder, self._files, self._shape = folder, files, image_shape

    def write(self, format: str, path: Path) -> None:
        """Write a file of safetensors."""
        # TensorFlow is used without it, too.
        from safetensors.numpy import save

        with np.load(self._path) as arrays:
            values = {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}
        path.write_bytes(save(values, {"framework": "TensorFlow"}))

    def outputs(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the probabilities."""
        from imagenet_workloads.frameworks.tensorflow import predictor

        return predictor.load(self._folder, self._files, self._shape).classify(images)

    def outputs_of(self, format: str, path: Path, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the probabilities of the network with a file's values."""
        from imagenet_workloads.frameworks.tensorflow import predictor

        model = predictor.load_exported(path, self._folder, self._files, self._shape)
        return model.classify(images)


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> ArraysExporter:
    """Find the file that result.json names.

    Raises:
        InputError: it is missing.
    """
    path = folder / files.file_name("weights")
    if not path.is_file():
        raise InputError(f"{path}: no such file, though result.json names it")
    return ArraysExporter(folder, files, image_shape)
