"""The files of a checkpoint and of an exported model, as TensorFlow writes them.

    weights.npz         weights and statistics by MXNet's names, in MXNet's layouts (see `weights`)
    states.npz          the optimizer's arrays, and its number of updates

`checkpoint` chooses the folder and checks that it is complete. Values of another network, optimizer
or framework, and what cannot be read, raise an InputError. An exported model is

    PREFIX/             tf.saved_model.load(PREFIX).signatures["serving_default"](data=images)
    PREFIX-NNNN.npz     weights and statistics by MXNet's names, in MXNet's layouts

The SavedModel takes (images, height, width, channels), normalised as result.json's inputs say, and
returns `probabilities`. Imports TensorFlow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from imagenet_spec.program.train import Options
from imagenet_workloads import files
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.frameworks.tensorflow.layers import Dropout
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
from imagenet_workloads.train import moving_statistics
from imagenet_workloads.train.moving_statistics import Rows
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint

WEIGHTS, STATES = "weights.npz", "states.npz"


@dataclass(frozen=True)
class Snapshot:
    """Copied arrays; implements `train.framework.Snapshot`."""

    weights: Arrays
    optimizer: Arrays
    statistics: Rows | None

    @classmethod
    def of(
        cls, variables: list[Named], optimizer: Optimizer, statistics: Rows | None
    ) -> "Snapshot":
        """Copy what a checkpoint holds. On a CPU TensorFlow's arrays are its variables' memory."""
        weights = {name: array.copy() for name, array in read_values(variables).items()}
        states = {name: array.copy() for name, array in optimizer.states().items()}
        return cls(weights, states, statistics)

    def save(self, folder: Path) -> None:
        save_arrays(folder / WEIGHTS, self.weights)
        save_arrays(folder / STATES, self.optimizer)
        moving_statistics.save(folder, self.statistics)

    def state(self) -> State:
        parts = {"weights": self.weights, "optimizer": self.optimizer}
        return {**parts, **moving_statistics.state(self.statistics)}


def restore(options: Options, model: Any, optimizer: Optimizer, resume_point: ResumePoint) -> bool:
    """Load the start's checkpoint into model and optimizer; return whether there is one."""
    if resume_point.folder is not None:
        origin = resume_point.folder / WEIGHTS
    elif options.output.load_epoch is not None:
        origin = Path(f"{options.output.model_prefix}-{options.output.load_epoch:04}.npz")
    else:
        return False
    try:
        assign(_variables(model), load_arrays(origin))
    except ValueError as error:
        raise InputError(f"{origin}: does not fit {options.model.network}: {error}") from error
    if resume_point.continues:
        states = load_arrays(Path(f"{resume_point.folder}/{STATES}"))
        try:
            optimizer.load_states(states)
        except KeyError as error:
            raise InputError(
                f"{resume_point.resumed_from}: holds no optimizer state for {error}; it is another "
                "optimizer's: use it with --init-from (checkpoint.initFrom) and another --output "
                "(training.output)"
            ) from error
    return True


def export(prefix: Path, model: Any, epoch: int) -> Mapping[str, str]:
    """Write PREFIX/ and PREFIX-NNNN.npz; each gets its name when it is complete."""
    values = read_values(_variables(model))
    arrays = prefix.with_name(f"{prefix.name}-{epoch:04}.npz")
    files.write_output(arrays, lambda path: save_arrays(path, values))
    try:
        files.write_output(prefix, lambda folder: _save_model(folder, model))
    except tf.errors.OpError as error:
        raise StorageError(f"cannot write {prefix}: {error}") from error
    return {"savedModel": prefix.name, "weights": arrays.name}


def _save_model(folder: Path, model: Any) -> None:
    """Save a copy that is on one device and needs no other worker."""
    with tf.device("CPU:0"):
        alone = tf.keras.models.clone_model(model, clone_function=_plain_copy)
    for one, copy in zip(_variables(model), _variables(alone), strict=True):
        copy.variable.assign(one.from_mxnet(read_values([one])[one.name]))

    def classify(data: Any) -> Any:
        return {"probabilities": tf.nn.softmax(alone(data, training=False))}

    images = tf.TensorSpec((None, *alone.input_shape[1:]), name="data")
    served = tf.function(classify, input_signature=[images], autograph=False)
    tf.saved_model.save(alone, str(folder), signatures={"serving_default": served})


def _plain_copy(layer: Any) -> Any:
    """Copy a layer; dropout becomes Keras's own, which needs no seed from a training."""
    if isinstance(layer, Dropout):
        return tf.keras.layers.Dropout(layer.rate, name=layer.name)
    return type(layer).from_config(layer.get_config())


def _variables(model: Any) -> list[Any]:
    weights, statistics = named(model)
    return [*weights, *statistics]
