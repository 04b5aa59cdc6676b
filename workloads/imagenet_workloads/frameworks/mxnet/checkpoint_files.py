"""The files of a checkpoint and of an exported model, as MXNet writes them. Imports MXNet.

    symbol.json    the network
    params         weights and BatchNorm statistics, as in a PREFIX-NNNN.params of MXNet
    states         the optimizer's arrays; absent with dist_async

`checkpoint` chooses the folder and checks that it is complete. Values of another network, optimizer
or framework, and what cannot be read, raise an InputError. Plain MXNet loads an exported model:
mx.model.load_checkpoint(PREFIX, NNNN).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mxnet as mx

from imagenet_spec.program.train import Options
from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.replicas import Parameters, Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Strategy
from imagenet_workloads.train import moving_statistics
from imagenet_workloads.train.moving_statistics import Rows
from imagenet_workloads.train.networks import initializer_of
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint

INITIALIZERS: Mapping[str, Callable[[], mx.init.Initializer]] = {
    "he": lambda: mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
    "xavier": mx.init.Xavier,
    "msra": mx.init.MSRAPrelu,
    "orthogonal": mx.init.Orthogonal,
    "normal": mx.init.Normal,
    "uniform": mx.init.Uniform,
    "one": mx.init.One,
    "zero": mx.init.Zero,
}


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A loaded checkpoint; None as `states` if it has no arrays of the optimizer."""

    parameters: Parameters
    states: Mapping[str, mx.nd.NDArray] | None


@dataclass(frozen=True)
class Snapshot:
    """Copied arrays; implements `train.framework.Snapshot`. Without states on the workers, None."""

    symbol: str
    parameters: Parameters
    optimizer: Mapping[str, mx.nd.NDArray] | None
    statistics: Rows | None

    @classmethod
    def of(cls, replicas: Replicas, strategy: Strategy, statistics: Rows | None) -> "Snapshot":
        """Copy what a checkpoint holds, and wait for it.

        MXNet's engine does not know that the next step moves the statistics (`replicas`).
        """
        symbol, parameters = replicas.symbol.tojson(), replicas.parameters()
        found = cls(symbol, parameters, strategy.states(), statistics)
        mx.nd.waitall()
        return found

    def save(self, folder: Path) -> None:
        (folder / "symbol.json").write_text(self.symbol)
        save_parameters(folder / "params", self.parameters)
        if self.optimizer is not None:
            # MXNet cannot save an empty set of arrays.
            mx.nd.save(str(folder / "states"), {"": mx.nd.zeros(1), **self.optimizer})
        moving_statistics.save(folder, self.statistics)

    def state(self) -> State:
        weights = {**self.parameters.arguments, **self.parameters.auxiliary}
        parts = {"weights": weights}
        if self.optimizer is not None:
            parts["optimizer"] = dict(self.optimizer)
        arrays = {
            part: {name: array.asnumpy() for name, array in named.items()}
            for part, named in parts.items()
        }
        return {**arrays, **moving_statistics.state(self.statistics)}


def load(folder: Path) -> LoadedCheckpoint:
    """Read a checkpoint's folder."""
    states = None
    if (folder / "states").exists():
        states = {name: array for name, array in _read(folder / "states").items() if name}
    return LoadedCheckpoint(load_parameters(folder / "params"), states)


def save_parameters(path: Path, parameters: Parameters) -> None:
    """Write weights and statistics as MXNet's PREFIX-NNNN.params."""
    arrays = {f"arg:{name}": array for name, array in parameters.arguments.items()}
    arrays |= {f"aux:{name}": array for name, array in parameters.auxiliary.items()}
    mx.nd.save(str(path), arrays)


def load_parameters(path: Path) -> Parameters:
    """Read weights and statistics."""
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


def read(resume_point: ResumePoint) -> LoadedCheckpoint | None:
    """Read the checkpoint that training resumes from; None without one."""
    return None if resume_point.folder is None else load(resume_point.folder)


def prepare(
    options: Options, replicas: Replicas, resume_point: ResumePoint, loaded: LoadedCheckpoint | None
) -> None:
    """Set the initial values of the replicas."""
    if loaded is not None:
        parameters, origin = loaded.parameters, resume_point.resumed_from
    elif options.output.load_epoch is not None:
        origin = f"{options.output.model_prefix}-{options.output.load_epoch:04}.params"
        parameters = load_parameters(Path(origin))
    else:
        replicas.initialize(INITIALIZERS[initializer_of(options.model)]())
        return
    try:
        replicas.load(parameters)
    except ValueError as error:
        raise InputError(f"{origin}: does not fit {options.model.network}: {error}") from error


def restore_optimizer(
    strategy: Strategy, resume_point: ResumePoint, loaded: LoadedCheckpoint | None
) -> None:
    """Load the saved optimizer state if training resumes from its own checkpoint."""
    if loaded is None or loaded.states is None or not resume_point.continues:
        return
    try:
        strategy.load_states(loaded.states)
    except KeyError as error:
        raise InputError(
            f"{resume_point.resumed_from}: holds no optimizer state for {error}; it is another "
            "optimizer's: use it with --init-from (checkpoint.initFrom) and another --output "
            "(training.output)"
        ) from error


def export_model(prefix: Path, replicas: Replicas, epoch: int) -> Mapping[str, str]:
    """Write PREFIX-symbol.json and PREFIX-NNNN.params; return these names."""
    symbol = prefix.with_name(f"{prefix.name}-symbol.json")
    files.write_output(symbol, lambda path: path.write_text(replicas.symbol.tojson()))
    params = prefix.with_name(f"{prefix.name}-{epoch:04}.params")
    files.write_output(params, lambda path: save_parameters(path, replicas.parameters()))
    return {"symbol": symbol.name, "params": params.name}
