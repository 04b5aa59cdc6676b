"""How MXNet's workers exchange gradients: one module a strategy, by its name in `description`.

Each module has `join(ClusterOptions) -> Strategy`. Imports MXNet.
"""

import importlib
from collections.abc import Mapping
from typing import Protocol

import mxnet as mx

from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.frameworks.mxnet.description import STRATEGIES
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.group import Flags, Group
from imagenet_workloads.train.moving_statistics import Rows

__all__ = ["Flags", "Strategy"]


class Strategy(Group, Protocol):
    """How one worker exchanges gradients with the others.

    If `collective` is true, all workers call every method but `states` and `load_states`, in the
    same order. `gradients_ready` is when this worker's gradients of the last update were ready, by
    time.monotonic; None if that is not known, or no other worker waits for them.
    """

    gradients_ready: float | None

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Broadcast rank 0's weights and statistics to every device, and take the optimizer."""

    def update(self, flags: Flags) -> Flags:
        """Exchange gradients and move the weights; return the flags of all workers."""

    def gather(self, own: Rows) -> Rows:
        """Return the moving statistics of all workers' devices by rank, or its own."""

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Return the optimizer's state; None if it is not on the workers."""

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Load saved states; KeyError if they belong to another optimizer."""


def join(options: ClusterOptions) -> Strategy:
    """Make the strategy; returns when every member has joined."""
    module = importlib.import_module(f"{__package__}.{STRATEGIES[options.kv_store]}")
    strategy: Strategy = module.join(options)
    return strategy
