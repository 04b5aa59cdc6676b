"""Finds whom a worker waits for, by the strategy that its command line names.

A module of this package has `find`, and VARIABLE: that of the environment which makes a process one
of several; None where a worker is alone.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.peers.interface import Peers
from imagenet_workloads.train.strategies.names import STRATEGIES
from imagenet_workloads.train.tensorflow.strategies.names import PEERS


def find(options: Options, variables: Mapping[str, str]) -> Peers:
    """Give the peers of this worker.

    Args:
        options: the command line.
        variables: the environment, which says who this worker is among them.

    Raises:
        InputError: the two do not fit, or a variable is wrong.
    """
    chosen = options.cluster
    if chosen.framework == "MXNet":
        option, name = "--kv-store", chosen.kv_store
        modules = {other: names.peers for other, names in STRATEGIES.items()}
    else:
        option, name = "--distribution-strategy", chosen.distribution_strategy
        modules = PEERS
    asked, module = f"{option} {name}", _module(modules[name])
    if module.VARIABLE is None:
        _refuse_others(asked, modules, variables)
    peers: Peers = module.find(asked, variables)
    return peers


def _refuse_others(asked: str, modules: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Refuse to train alone where the environment says that there are others.

    Raises:
        InputError: it does.
    """
    for name in dict.fromkeys(modules.values()):
        variable = _module(name).VARIABLE
        if variable is not None and variables.get(variable):
            fitting = " or ".join(other for other, found in modules.items() if found == name)
            raise InputError(
                f"{asked}: {variable} is {variables[variable]}, and that needs {fitting}"
            )


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")
