"""Loads an exported model for `prediction`: one framework a module, found by its name.

Each has `load(folder, files, image_shape) -> Model`, and is imported only where a model needs it.
"""

import importlib
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.models.interface import Model

# The module and package that a result.json's framework means.
FRAMEWORKS = {"MXNet": "mxnet", "TensorFlow": "tensorflow"}


def load(folder: Path, result: Fields, image_shape: tuple[int, int, int]) -> Model:
    """Load what a result.json names.

    Args:
        folder: that holds the files.
        result: the content of the result.json.
        image_shape: channels, height, width of the network's input.

    Raises:
        InputError: a file is missing or damaged, or the framework is unknown or not installed.
    """
    framework = result.text("framework") if result.has("framework") else "MXNet"
    if framework not in FRAMEWORKS:
        raise result.wrong("framework", f"is {framework!r}; known are {', '.join(FRAMEWORKS)}")
    try:
        module = importlib.import_module(f"{__package__}.of_{FRAMEWORKS[framework]}")
    except ModuleNotFoundError as error:
        if error.name != FRAMEWORKS[framework]:
            raise
        raise InputError(
            f"{folder}: was trained with {framework}, which {error.name!r} is missing for here; "
            f"use the environment or image of {framework}"
        ) from error
    model: Model = module.load(folder, result.object("model"), image_shape)
    return model
