"""What a checkpoint's folder and an exported model hold of a training with TensorFlow.

    weights.npz         weights and statistics by MXNet's names, in MXNet's layouts (see `weights`)
    states.npz          the optimizer's arrays, and how many updates it has made

`checkpoint` chooses the folder and checks that it is whole. An exported model is

    PREFIX/             tf.saved_model.load(PREFIX).signatures["serving_default"](data=images)
    PREFIX-NNNN.npz     weights and statistics by MXNet's names, in MXNet's layouts

The SavedModel takes (images, height, width, channels), normalised as result.json's inputs say, and
gives `probabilities`. Imports TensorFlow.
"""

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.frameworks.tensorflow.optimizers import Optimizer
from imagenet_workloads.frameworks.tensorflow.weights import (
    Arrays,
    Named,
    assign,
    load_arrays,
    named,
    read_values,
    save_arrays,
)
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.result import put
from imagenet_workloads.train.resume import ResumePoint

WEIGHTS, STATES = "weights.npz", "states.npz"


def save(folder: Path, weights: list[Named], statistics: list[Named], states: Arrays) -> None:
    """Fill a checkpoint's folder."""
    save_arrays(folder / WEIGHTS, read_values([*weights, *statistics]))
    save_arrays(folder / STATES, states)


def restore(options: Options, model: Any, optimizer: Optimizer, resume_point: ResumePoint) -> bool:
    """Give model and optimizer what the start names; whether it names anything.

    Raises:
        InputError: saved values are of another network, optimizer or framework.
    """
    if resume_point.folder is not None:
        origin = resume_point.folder / WEIGHTS
    elif options.output.load_epoch is not None:
        origin = Path(f"{options.output.model_prefix}-{options.output.load_epoch:04}.npz")
    else:
        return False
    weights, statistics = named(model)
    try:
        assign([*weights, *statistics], load_arrays(origin))
    except ValueError as error:
        raise InputError(f"{origin}: does not fit {options.model.network}: {error}") from error
    if resume_point.continues:
        _restore_optimizer(optimizer, resume_point)
    return True


def _restore_optimizer(optimizer: Optimizer, resume_point: ResumePoint) -> None:
    states = load_arrays(Path(f"{resume_point.folder}/{STATES}"))
    try:
        optimizer.load_states(states)
    except KeyError as error:
        raise InputError(
            f"{resume_point.resumed_from}: holds no optimizer state for {error}; it is another "
            "optimizer's: use it with --init-from and another --output"
        ) from error


def export(prefix: Path, model: Any, epoch: int) -> Mapping[str, str]:
    """Write PREFIX/ and PREFIX-NNNN.npz, each renamed into place when complete.

    Returns:
        their names.

    Raises:
        StorageError: the folder cannot be written.
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
        raise StorageError(f"cannot write {prefix}: {error}") from error
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
