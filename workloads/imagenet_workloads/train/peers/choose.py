"""Finds whom a worker waits for, by the strategy that its command line names."""

import importlib
from collections.abc import Mapping

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
        asked, name = f"--kv-store {chosen.kv_store}", STRATEGIES[chosen.kv_store].peers
    else:
        asked = f"--distribution-strategy {chosen.distribution_strategy}"
        name = PEERS[chosen.distribution_strategy]
    peers: Peers = importlib.import_module(f"{__package__}.{name}").find(asked, variables)
    return peers
