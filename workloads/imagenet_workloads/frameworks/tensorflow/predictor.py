"""Predicts with an exported model of TensorFlow: a SavedModel.

A file of safetensors takes the place of its values.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.tensorflow.weights import assign, named_by_variable


class SavedModelPredictor:
    """A SavedModel's signature; implements `Predictor`."""

    def __init__(self, model: Any, origin: str) -> None:
        """Take a loaded model; its signature needs a reference to it."""
        self._model, self._classify = model, model.signatures["serving_default"]
        self.classes = int(self._classify.structured_outputs["probabilities"].shape[1])
        self.origin = origin

    def assign(self, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Set the values, by MXNet's names; ValueError if one is missing, or has another shape."""
        assign(named_by_variable(self._model.variables), arrays)

    def probabilities(self, images: Any) -> Any:
        """Return the probabilities of a tensor; move the channels to TensorFlow's axis."""
        return self._classify(data=tf.transpose(images, (0, 2, 3, 1)))["probabilities"]

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = self.probabilities(tf.constant(images)).numpy()
        return found


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> SavedModelPredictor:
    """Load the folder that result.json names."""
    path = folder / files.file_name("savedModel")
    if not path.is_dir():
        raise InputError(f"{path}: no such folder, though result.json names it")
    try:
        model = tf.saved_model.load(str(path))
        signature = model.signatures["serving_default"]
        taken = tuple(signature.structured_input_signature[1]["data"].shape[1:])
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: cannot be loaded: {reason}") from error
    channels, height, width = image_shape
    if taken != (height, width, channels):
        raise InputError(f"{path}: takes images of {taken}, not {(height, width, channels)}")
    return SavedModelPredictor(model, str(path))


def load_exported(
    exported: Path, folder: Path, files: Fields, image_shape: tuple[int, int, int]
) -> SavedModelPredictor:
    """Load the folder that result.json names, with the values of a file of safetensors."""
    # TensorFlow is used without it, too.
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    model = load(folder, files, image_shape)
    try:
        model.assign(load_file(exported))
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{exported}: cannot be loaded into {model.origin}: {error}") from error
    return model
