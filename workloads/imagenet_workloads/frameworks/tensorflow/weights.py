"""The values of a Keras model by MXNet's names and in MXNet's layouts, and .npz files of them.

    Dense           kernel (in, out)            NAME_weight (out, in)
    Conv2D          kernel (h, w, in, out)      NAME_weight (out, in, h, w)
    Depthwise…      kernel (h, w, in, times)    NAME_weight (in, times, h, w)
    BatchNorm       gamma, beta                 NAME_gamma, NAME_beta
                    moving_mean, _variance      NAME_moving_mean, NAME_moving_var

The arrays of mlp, lenet and the small resnets equal those of MXNet's networks of the same names.
They can be compared, and training can start from them. Imports TensorFlow.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from imagenet_workloads.errors import InputError

Array = NDArray[np.float32]
Arrays = Mapping[str, Array]

_NAMES = {
    "kernel": "weight",
    "depthwise_kernel": "weight",
    "moving_variance": "moving_var",
}
_TRANSPOSITIONS = {
    ("kernel", 2): (1, 0),
    ("kernel", 4): (3, 2, 0, 1),
    ("depthwise_kernel", 4): (2, 3, 0, 1),
}


@dataclass(frozen=True)
class Named:
    """One variable of a Keras model, by MXNet's name.

    `axes` are MXNet's layout, as positions of Keras's axes; None if both are the same.
    """

    name: str
    variable: Any
    axes: tuple[int, ...] | None

    @property
    def decays(self) -> bool:
        """Whether weight decay applies; as in MXNet, not to biases and betas."""
        return self.name.endswith(("_weight", "_gamma"))

    def to_mxnet(self, value: Array) -> Array:
        """Transpose a value of the variable, or of its optimizer state, to MXNet's axes."""
        return value if self.axes is None else np.ascontiguousarray(value.transpose(self.axes))

    def from_mxnet(self, value: Array) -> Array:
        """Transpose a value back to Keras's axes."""
        return value if self.axes is None else value.transpose(np.argsort(self.axes))


def named(model: Any) -> tuple[list[Named], list[Named]]:
    """List a model's trained weights, and BatchNorm's moving statistics."""
    trained = {id(variable) for variable in model.trainable_variables}
    weights: list[Named] = []
    statistics: list[Named] = []
    for layer in model.layers:
        for variable in layer.variables:
            found = _named(layer.name, variable)
            (weights if id(variable) in trained else statistics).append(found)
    return weights, statistics


def named_by_variable(variables: Iterable[Any]) -> list[Named]:
    """List variables that have no layers, those of a SavedModel: `conv0/kernel:0`."""
    return [_named(one.name.rpartition("/")[0], one) for one in variables]


def _named(layer: str, variable: Any) -> Named:
    own = variable.name.rpartition("/")[2].partition(":")[0]
    axes = _TRANSPOSITIONS.get((own, len(variable.shape)))
    return Named(f"{layer}_{_NAMES.get(own, own)}", variable, axes)


def local(variable: Any) -> Any:
    """Return this process's first copy of a variable, without another worker."""
    return variable.values[0] if isinstance(variable, tf.distribute.DistributedValues) else variable


def read_values(variables: list[Named]) -> dict[str, Array]:
    """Copy the values of this process's first device."""
    return {one.name: one.to_mxnet(local(one.variable).numpy()) for one in variables}


def assign(variables: list[Named], values: Arrays) -> None:
    """Set variables, on every device of this process.

    ValueError: a value is missing, or has another shape than the variable.
    """
    for one in variables:
        if one.name not in values:
            raise ValueError(f"it has no values for {one.name}")
        shape = one.to_mxnet(np.empty(one.variable.shape, np.float32)).shape
        if values[one.name].shape != shape:
            raise ValueError(f"{one.name} is {values[one.name].shape}, not {shape}")
    for one in variables:
        one.variable.assign(one.from_mxnet(values[one.name]))


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays by name."""
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle


def load_arrays(path: Path) -> dict[str, Array]:
    """Read arrays by name; InputError if the file is missing, or no file of arrays."""
    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            return {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: not a file of arrays by NumPy (.npz): {reason}") from None
