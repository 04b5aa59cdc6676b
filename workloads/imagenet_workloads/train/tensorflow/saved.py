"""What a checkpoint's folder holds of a training with TensorFlow.

    weights.npz     weights and statistics by MXNet's names, in MXNet's layouts (see `weights`)
    states.npz      the optimizer's arrays, and how many updates it has made

`checkpoint` decides which folder, and that it is whole; `keeper` adds training.json. Imports
TensorFlow.
"""

from pathlib import Path
from typing import Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.start import Start
from imagenet_workloads.train.tensorflow.optimizers import Optimizer
from imagenet_workloads.train.tensorflow.weights import (
    Arrays,
    Named,
    assign,
    load_arrays,
    named,
    read_values,
    save_arrays,
)

WEIGHTS, STATES = "weights.npz", "states.npz"


def save(folder: Path, weights: list[Named], statistics: list[Named], states: Arrays) -> None:
    """Fill a checkpoint's folder."""
    save_arrays(folder / WEIGHTS, read_values([*weights, *statistics]))
    save_arrays(folder / STATES, states)


def restore(options: Options, model: Any, optimizer: Optimizer, begin: Start) -> bool:
    """Give model and optimizer what the start names; whether it names anything.

    Raises:
        InputError: saved values are of another network, optimizer or framework.
    """
    if begin.folder is not None:
        origin = begin.folder / WEIGHTS
    elif options.output.load_epoch is not None:
        origin = Path(f"{options.output.model_prefix}-{options.output.load_epoch:04}.npz")
    else:
        return False
    weights, statistics = named(model)
    try:
        assign([*weights, *statistics], load_arrays(origin))
    except ValueError as error:
        raise InputError(f"{origin}: does not fit {options.model.network}: {error}") from error
    if begin.continues:
        _restore_optimizer(optimizer, begin)
    return True


def _restore_optimizer(optimizer: Optimizer, begin: Start) -> None:
    states = load_arrays(Path(f"{begin.folder}/{STATES}"))
    try:
        optimizer.load_states(states)
    except KeyError as error:
        raise InputError(
            f"{begin.resumed_from}: holds no optimizer state for {error}; it is another "
            "optimizer's: use it with --init-from and another --output"
        ) from error
