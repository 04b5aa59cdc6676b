"""Where a training begins: at the newest checkpoint, at given weights, or at random ones.

Rank 0 decides and tells the others, for which the volume might look different; the weights reach
them through the strategy, the optimizer's state from the same checkpoint. Imports MXNet.
"""

from dataclasses import dataclass
from pathlib import Path

import mxnet as mx

from imagenet_workloads.checkpoint.store import CheckpointStore, Identity, Position
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.saved import Saved, load, load_parameters, translate
from imagenet_workloads.train.strategies.interface import Strategy

# What rank 0 can have found.
_NOTHING, _OWN, _FOREIGN = range(3)


@dataclass(frozen=True)
class Start:
    """Where to go on.

    Attributes:
        position: in this training's epochs.
        saved: what was loaded; None without a checkpoint.
        resumed_from: the checkpoint's folder.
        continues: the checkpoint is this training's own, so its optimizer goes on too.
    """

    position: Position
    saved: Saved | None = None
    resumed_from: str | None = None
    continues: bool = False


def find(
    options: Options,
    store: CheckpointStore,
    identity: Identity,
    strategy: Strategy,
    batches_per_epoch: int,
    together: int,
) -> Start:
    """Find the place; every rank gets the same.

    A checkpoint of this training is continued. One that only --init-from names, of another
    training, gives its weights, and the training begins at epoch 0.

    Args:
        options: the command line.
        store: of checkpoints.
        identity: of this training.
        strategy: how ranks agree.
        batches_per_epoch: of this worker, now.
        together: batches that make one update.

    Raises:
        InputError: --init-from names no checkpoint.
        WorkloadError: this rank does not see the checkpoint that rank 0 has found.
    """
    found = store.newest(options.output.init_from)
    own = found is not None and found.manifest.identity == identity
    kind = _NOTHING if found is None else _OWN if own else _FOREIGN
    place = found.position if found is not None else Position(0, 0)
    seen = [kind, place.epoch, place.batch]
    agreed = strategy.agree("start", seen)
    if agreed != seen:
        raise WorkloadError(
            f"rank {strategy.rank} sees another newest checkpoint on the output volume than rank 0 "
            f"(kind, epoch, batch: {seen}, not {agreed}); is it one volume for all workers?"
        )
    if found is None:
        return Start(Position(options.output.load_epoch or 0, 0))
    saved = load(found.folder)
    if not own:
        return Start(Position(0, 0), saved, str(found.folder))
    position = translate(found.position, saved.batches_per_epoch, batches_per_epoch, together)
    return Start(position, saved, str(found.folder), continues=True)


def prepare(options: Options, replicas: Replicas, begin: Start) -> None:
    """Give the replicas their first values.

    Raises:
        InputError: saved values are of another network.
    """
    if begin.saved is not None:
        parameters, origin = begin.saved.parameters, begin.resumed_from
    elif options.output.load_epoch is not None:
        origin = f"{options.output.model_prefix}-{options.output.load_epoch:04}.params"
        parameters = load_parameters(Path(origin))
    else:
        replicas.initialize(_initializer(options))
        return
    try:
        replicas.load(parameters)
    except ValueError as error:
        raise InputError(f"{origin}: does not fit {options.model.network}: {error}") from error


def restore_optimizer(strategy: Strategy, begin: Start) -> None:
    """Give the optimizer its saved state, where this training goes on with its own.

    Raises:
        InputError: the state is another optimizer's.
    """
    if begin.saved is None or begin.saved.states is None or not begin.continues:
        return
    try:
        strategy.load_states(begin.saved.states)
    except KeyError as error:
        raise InputError(
            f"{begin.resumed_from}: holds no optimizer state for {error}; it is another "
            "optimizer's: use it with --init-from and another --output"
        ) from error


def _initializer(options: Options) -> mx.init.Initializer:
    """Make the initializer; `default` is what MXNet's example takes for the network."""
    name = options.model.initializer
    if name == "default":
        name = {"alexnet": "normal", "vgg": "xavier"}.get(options.model.network, "he")
    makers = {
        "he": lambda: mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
        "xavier": mx.init.Xavier,
        "msra": mx.init.MSRAPrelu,
        "orthogonal": mx.init.Orthogonal,
        "normal": mx.init.Normal,
        "uniform": mx.init.Uniform,
        "one": mx.init.One,
        "zero": mx.init.Zero,
    }
    return makers[name]()
