"""Writes a model of TensorFlow as safetensors: the arrays of PREFIX-NNNN.npz, by MXNet's names.

It loads without TensorFlow, and so does this module:

    arrays = safetensors.numpy.load_file("model.safetensors")
"""

from pathlib import Path
from typing import Any, Never

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

_NO_CHECK = (
    "--check: TensorFlow has no network to load safetensors into; leave --check out, or compare "
    "the arrays with those of the .npz beside the model"
)


class ArraysExporter:
    """The arrays of a model; implements `Exporter`, but for the outputs."""

    def __init__(self, path: Path) -> None:
        """Take the .npz file."""
        self._path = path

    def write(self, format: str, path: Path) -> None:
        """Write a file of safetensors."""
        # TensorFlow is used without it, too.
        from safetensors.numpy import save

        with np.load(self._path) as arrays:
            values = {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}
        path.write_bytes(save(values, {"framework": "TensorFlow"}))

    def outputs(self, images: npt.NDArray[Any]) -> Never:
        """Refuse."""
        raise InputError(_NO_CHECK)

    def outputs_of(self, format: str, path: Path, images: npt.NDArray[Any]) -> Never:
        """Refuse."""
        raise InputError(_NO_CHECK)


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> ArraysExporter:
    """Find the file that result.json names.

    Raises:
        InputError: it is missing.
    """
    path = folder / files.file_name("weights")
    if not path.is_file():
        raise InputError(f"{path}: no such file, though result.json names it")
    return ArraysExporter(path)
