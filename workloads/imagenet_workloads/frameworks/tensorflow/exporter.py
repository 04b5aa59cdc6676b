"""Writes a model of TensorFlow as safetensors or ONNX.

A file of safetensors has the arrays of PREFIX-NNNN.npz, by MXNet's names. It loads without
TensorFlow, and so does this module:

    arrays = safetensors.numpy.load_file("model.safetensors")

A file of ONNX takes normalised images, (images, channels, height, width), and returns
probabilities. tf2onnx writes it from the SavedModel.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.exported_files import INPUT, PROBABILITIES, OnnxModel
from imagenet_workloads.fields import Fields

# MXNet's files have the same.
_OPSET = 13


class ArraysExporter:
    """The arrays of a model; implements `Exporter`. Only safetensors needs no TensorFlow."""

    def __init__(self, folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> None:
        self._path = folder / files.file_name("weights")
        self._folder, self._files, self._shape = folder, files, image_shape

    def write(self, format: str, path: Path) -> None:
        if format == "onnx":
            path.write_bytes(self._onnx())
            return
        # TensorFlow is used without it, too.
        from safetensors.numpy import save

        with np.load(self._path) as arrays:
            values = {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}
        path.write_bytes(save(values, {"framework": "TensorFlow"}))

    def outputs(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._model().classify(images)
        return found

    def outputs_of(self, format: str, path: Path, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if format == "onnx":
            return OnnxModel(path, self._shape).outputs(images)
        from imagenet_workloads.frameworks.tensorflow import predictor

        model = predictor.load_exported(path, self._folder, self._files, self._shape)
        return model.classify(images)

    def _model(self) -> Any:
        from imagenet_workloads.frameworks.tensorflow import predictor

        return predictor.load(self._folder, self._files, self._shape)

    def _onnx(self) -> bytes:
        import tensorflow as tf
        import tf2onnx

        model = self._model()

        def classify(images: Any) -> Any:
            return {PROBABILITIES: model.probabilities(images)}

        signature = [tf.TensorSpec((None, *self._shape), name=INPUT)]
        served = tf.function(classify, input_signature=signature, autograph=False)
        written, _ = tf2onnx.convert.from_function(served, signature, opset=_OPSET)
        for one in (*written.graph.input, *written.graph.output):
            one.type.tensor_type.shape.dim[0].dim_param = "images"
        content: bytes = written.SerializeToString()
        return content


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> ArraysExporter:
    """Find the file that result.json names."""
    path = folder / files.file_name("weights")
    if not path.is_file():
        raise InputError(f"{path}: no such file, though result.json names it")
    return ArraysExporter(folder, files, image_shape)
