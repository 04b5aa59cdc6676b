"""What a checkpoint's folder holds of a training, and what of it a training continues with.

    symbol.json    the network
    params         weights and BatchNorm statistics, as in a PREFIX-NNNN.params of MXNet
    states         the optimizer's arrays; not there with dist_async
    training.json  how long an epoch was, to find the place again when that changes

`checkpoint` decides which folder, and that it is whole. Imports MXNet.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mxnet as mx

from imagenet_workloads.checkpoint.manifest import Position
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.train.replicas import Parameters, Replicas
from imagenet_workloads.train.strategies.interface import Strategy


@dataclass(frozen=True)
class Saved:
    """A loaded checkpoint.

    Attributes:
        parameters: weights and statistics.
        states: the optimizer's arrays; None where none were saved.
        batches_per_epoch: when it was written.
    """

    parameters: Parameters
    states: Mapping[str, mx.nd.NDArray] | None
    batches_per_epoch: int


def save(folder: Path, replicas: Replicas, strategy: Strategy, batches_per_epoch: int) -> None:
    """Fill a checkpoint's folder."""
    (folder / "symbol.json").write_text(replicas.symbol.tojson())
    save_parameters(folder / "params", replicas.parameters())
    states = strategy.states()
    if states is not None:
        # MXNet cannot save an empty set of arrays.
        mx.nd.save(str(folder / "states"), {"": mx.nd.zeros(1), **states})
    (folder / "training.json").write_text(json.dumps({"batchesPerEpoch": batches_per_epoch}))


def load(folder: Path) -> Saved:
    """Read a checkpoint's folder back.

    Raises:
        InputError: it is not a checkpoint of this program's.
    """
    batches = Fields.read(folder / "training.json").integer("batchesPerEpoch", minimum=1)
    states = None
    if (folder / "states").exists():
        states = {name: array for name, array in _read(folder / "states").items() if name}
    return Saved(load_parameters(folder / "params"), states, batches)


def save_parameters(path: Path, parameters: Parameters) -> None:
    """Write weights and statistics as MXNet's PREFIX-NNNN.params."""
    arrays = {f"arg:{name}": array for name, array in parameters.arguments.items()}
    arrays |= {f"aux:{name}": array for name, array in parameters.auxiliary.items()}
    mx.nd.save(str(path), arrays)


def load_parameters(path: Path) -> Parameters:
    """Read weights and statistics.

    Raises:
        InputError: the file is missing or no such file.
    """
    parts: dict[str, dict[str, mx.nd.NDArray]] = {"arg": {}, "aux": {}}
    for name, array in _read(path).items():
        kind, _, rest = name.partition(":")
        if kind not in parts:
            raise InputError(f"{path}: {name!r} is neither a weight (arg:) nor a statistic (aux:)")
        parts[kind][rest] = array
    return Parameters(parts["arg"], parts["aux"])


def translate(position: Position, was: int, now: int, together: int) -> Position:
    """Find a position again in epochs of another length, not later than it was.

    Args:
        position: in epochs of `was` batches.
        was: batches an epoch when it was recorded.
        now: batches an epoch now.
        together: batches that make one update; the result is between two updates.
    """
    batch = position.batch * now // was // together * together
    return Position(position.epoch, batch)


def _read(path: Path) -> dict[str, mx.nd.NDArray]:
    try:
        arrays = mx.nd.load(str(path))
    except (mx.MXNetError, OSError) as error:
        raise InputError(
            f"{path}: not a file of arrays by MXNet: {error}".splitlines()[0]
        ) from None
    if not isinstance(arrays, dict):
        raise InputError(f"{path}: its arrays have no names")
    return arrays
