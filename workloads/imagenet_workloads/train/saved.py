"""What a checkpoint's folder holds of a training, and what of it a training continues with.

    symbol.json    the network
    params         weights and BatchNorm statistics, as in a PREFIX-NNNN.params of MXNet
    states         the optimizer's arrays; not there with dist_async

`checkpoint` decides which folder, and that it is whole; `keeper` adds training.json. Imports MXNet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mxnet as mx

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.replicas import Parameters, Replicas
from imagenet_workloads.train.strategies.interface import Strategy


@dataclass(frozen=True)
class Saved:
    """A loaded checkpoint.

    Attributes:
        parameters: weights and statistics.
        states: the optimizer's arrays; None where none were saved.
    """

    parameters: Parameters
    states: Mapping[str, mx.nd.NDArray] | None


def save(folder: Path, replicas: Replicas, strategy: Strategy) -> None:
    """Fill a checkpoint's folder."""
    (folder / "symbol.json").write_text(replicas.symbol.tojson())
    save_parameters(folder / "params", replicas.parameters())
    states = strategy.states()
    if states is not None:
        # MXNet cannot save an empty set of arrays.
        mx.nd.save(str(folder / "states"), {"": mx.nd.zeros(1), **states})


def load(folder: Path) -> Saved:
    """Read a checkpoint's folder back.

    Raises:
        InputError: it is not a checkpoint of this program's.
    """
    states = None
    if (folder / "states").exists():
        states = {name: array for name, array in _read(folder / "states").items() if name}
    return Saved(load_parameters(folder / "params"), states)


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
