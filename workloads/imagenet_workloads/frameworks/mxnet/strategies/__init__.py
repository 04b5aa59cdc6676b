"""How MXNet's workers exchange: one strategy a module, found by its name in `description`.

Each module has `join(ClusterOptions) -> Strategy`. Imports MXNet.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import mxnet as mx

from imagenet_workloads.frameworks.mxnet.description import STRATEGIES
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.group import Flags, Group
from imagenet_workloads.train.options.groups import ClusterOptions

__all__ = ["Flags", "Strategy"]


class Strategy(Group, Protocol):
    """One worker's way to the others.

    Every method but `states` and `load_states` is called by all workers, in the same order, unless
    `collective` is false.
    """

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Give rank 0's weights and statistics to every device, and take the optimizer."""

    def update(self, flags: Flags) -> Flags:
        """Exchange gradients and move the weights; return the flags of all workers."""

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Set arrays, by name and device, to their average over devices.

        In a collective strategy over the devices of all workers, and the arrays are the network's
        moving statistics.
        """

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give the optimizer's state, or None where it is not on the workers."""

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Continue from saved states; KeyError where they are another optimizer's."""


def join(options: ClusterOptions) -> Strategy:
    """Make the strategy; returns when every member has joined."""
    module = importlib.import_module(f"{__package__}.{STRATEGIES[options.kv_store].strategy}")
    strategy: Strategy = module.join(options)
    return strategy
