"""Files of `imagenet-export`: their suffixes, and a model in a file of ONNX.

ONNX needs no framework; `OnnxModel` imports onnxruntime.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError

SUFFIXES = {"safetensors": "safetensors", "torchscript": "pt", "onnx": "onnx"}
"""Format → the suffix of its files."""

INPUT, SCORES, PROBABILITIES = "data", "scores", "probabilities"
"""The input of a file of ONNX, and its output, which is one of two."""


def format_of(path: Path) -> str:
    """Return the format that a file's suffix names; InputError if it names none."""
    for format, suffix in SUFFIXES.items():
        if path.suffix == f".{suffix}":
            return format
    known = ", ".join(f".{suffix}" for suffix in SUFFIXES.values())
    raise InputError(f"{path}: its suffix names no format; known are {known}")


def softmax(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the probabilities of scores, (images, classes)."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


class OnnxModel:
    """A file of ONNX on the CPU; implements `Predictor`."""

    def __init__(self, path: Path, image_shape: tuple[int, int, int]) -> None:
        """Load the file, and compute one image of (channels, height, width).

        InputError if it is damaged, or takes images of another shape.
        """
        import onnxruntime

        self.origin = str(path)
        try:
            self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            self.classes = self.outputs(np.zeros((1, *image_shape), np.float32)).shape[1]
        # Its errors have no class in common, and no public one.
        except Exception as error:
            raise InputError(f"{path}: cannot be loaded as ONNX: {error}") from error

    def outputs(self, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the scores or probabilities, (images, classes), of normalised images."""
        found: npt.NDArray[np.float32] = self._session.run(None, {INPUT: images})[0]
        return found

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        found = self.outputs(images)
        return softmax(found) if self._session.get_outputs()[0].name == SCORES else found
