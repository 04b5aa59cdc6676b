"""Gives the network and its optimizer what a start names: a checkpoint's values, or first ones.

The values reach the other ranks through the strategy. Imports MXNet.
"""

from pathlib import Path

import mxnet as mx

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.saved import Saved, load, load_parameters
from imagenet_workloads.train.start import Start
from imagenet_workloads.train.strategies.interface import Strategy


def read(begin: Start) -> Saved | None:
    """Read the checkpoint of a start; None without one.

    Raises:
        InputError: it is not one of MXNet's.
    """
    return None if begin.folder is None else load(begin.folder)


def prepare(options: Options, replicas: Replicas, begin: Start, saved: Saved | None) -> None:
    """Give the replicas their first values.

    Raises:
        InputError: saved values are of another network.
    """
    if saved is not None:
        parameters, origin = saved.parameters, begin.resumed_from
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


def restore_optimizer(strategy: Strategy, begin: Start, saved: Saved | None) -> None:
    """Give the optimizer its saved state, where this training goes on with its own.

    Raises:
        InputError: the state is another optimizer's.
    """
    if saved is None or saved.states is None or not begin.continues:
        return
    try:
        strategy.load_states(saved.states)
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
