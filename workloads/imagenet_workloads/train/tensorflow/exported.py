"""Writes a model for others to load: a SavedModel, and its values. Imports TensorFlow.

    PREFIX/             tf.saved_model.load(PREFIX).signatures["serving_default"](data=images)
    PREFIX-NNNN.npz     weights and statistics by MXNet's names, in MXNet's layouts

The SavedModel takes (images, height, width, channels), normalised as result.json's inputs say, and
gives `probabilities`.
"""

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from imagenet_workloads.errors import PlaceError
from imagenet_workloads.train.result import put
from imagenet_workloads.train.tensorflow.weights import named, read_values, save_arrays


def export(prefix: Path, model: Any, epoch: int) -> Mapping[str, str]:
    """Write PREFIX/ and PREFIX-NNNN.npz, each renamed into place when complete.

    Returns:
        their names.

    Raises:
        PlaceError: the folder cannot be written.
    """
    weights, statistics = named(model)
    values = read_values([*weights, *statistics])
    arrays = prefix.with_name(f"{prefix.name}-{epoch:04}.npz")
    put(arrays, lambda path: save_arrays(path, values))
    aside = prefix.with_name(f".{prefix.name}.tmp-{secrets.token_hex(4)}")
    try:
        _save_model(aside, model)
        if prefix.exists():
            shutil.rmtree(prefix)
        aside.rename(prefix)
    except (OSError, tf.errors.OpError) as error:
        raise PlaceError(f"cannot write {prefix}: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return {"savedModel": prefix.name, "weights": arrays.name}


def _save_model(folder: Path, model: Any) -> None:
    """Save a copy that is on one device and asks no other worker for anything."""
    with tf.device("CPU:0"):
        alone = tf.keras.models.clone_model(model)
    for one, copy in zip(_variables(model), _variables(alone), strict=True):
        copy.variable.assign(one.from_mxnet(read_values([one])[one.name]))

    def classify(data: Any) -> Any:
        return {"probabilities": tf.nn.softmax(alone(data, training=False))}

    images = tf.TensorSpec((None, *alone.input_shape[1:]), name="data")
    served = tf.function(classify, input_signature=[images], autograph=False)
    tf.saved_model.save(alone, str(folder), signatures={"serving_default": served})


def _variables(model: Any) -> list[Any]:
    weights, statistics = named(model)
    return [*weights, *statistics]
