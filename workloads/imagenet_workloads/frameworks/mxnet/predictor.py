"""Predicts with an exported model of MXNet: PREFIX-symbol.json and PREFIX-NNNN.params.

A file of safetensors takes the place of the second.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields


class SymbolPredictor:
    """A symbol with its values; implements `Predictor`."""

    def __init__(self, executor: Any, origin: str) -> None:
        self._executor = executor
        self.classes = int(executor.outputs[0].shape[1])
        self.origin = origin

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        output = self._executor.forward(is_train=False, data=mx.nd.array(images))
        probabilities: npt.NDArray[np.float32] = output[0].asnumpy()
        return probabilities


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> SymbolPredictor:
    """Load the files that result.json names."""
    symbol, params = folder / files.file_name("symbol"), folder / files.file_name("params")
    for path in (symbol, params):
        if not path.exists():
            raise InputError(f"{path}: no such file, though result.json names it")
    return SymbolPredictor(bind(symbol, params, (1, *image_shape)), str(symbol))


def load_exported(
    exported: Path, folder: Path, files: Fields, image_shape: tuple[int, int, int]
) -> SymbolPredictor:
    """Load a file of safetensors, and the symbol that result.json names."""
    symbol = folder / files.file_name("symbol")
    if not symbol.exists():
        raise InputError(f"{symbol}: no such file, though result.json names it")
    executor = bind(symbol, exported, (1, *image_shape), read_safetensors)
    return SymbolPredictor(executor, str(exported))


def read_safetensors(path: str) -> dict[str, Any]:
    """Read a file of safetensors; ValueError if it is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {name: mx.nd.array(array) for name, array in load_file(path).items()}
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def bind(
    symbol: Path,
    params: Path,
    shape: tuple[int, ...],
    read: Callable[[str], dict[str, Any]] = mx.nd.load,
) -> Any:
    """Return the executor of a symbol with the values of a file, as `arg:NAME` and `aux:NAME`.

    The shape is that of the images, (images, channels, height, width). InputError: a file is
    damaged, or they do not fit together.
    """
    # Otherwise MXNet logs its back end on stderr.
    os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")
    try:
        network = mx.sym.load(str(symbol))
        arrays = read(str(params))
        executor = network.simple_bind(mx.cpu(), grad_req="null", data=shape)
        executor.copy_params_from(_part(arrays, "arg:"), _part(arrays, "aux:"))
    except (mx.MXNetError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise InputError(f"{symbol} with {params.name}: cannot be loaded: {reason}") from error
    missing = {*executor.arg_dict, *executor.aux_dict} - {name[4:] for name in arrays}
    missing -= {"data", "softmax_label"}
    if missing:
        raise InputError(f"{params}: holds no values for {', '.join(sorted(missing))}")
    return executor


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
