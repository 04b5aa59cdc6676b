"""How TensorFlow's workers exchange gradients: what a strategy adds to the group of workers."""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from imagenet_workloads.train.group import Group


class Strategy(Group, Protocol):
    """How one worker computes on its `devices` and exchanges with the others.

    `distribution` is tf.distribute's. Variables are made in its scope; its `run` runs a step as one
    replica for each device of this worker.
    """

    distribution: Any
    devices: int

    def total(self, tensors: Sequence[Any]) -> list[Any]:
        """Sum tensors over all replicas of all workers; call it in a replica."""

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Broadcast rank 0's values to every worker."""


def join(name: str) -> Strategy:
    """Make the strategy whose module has this name; return when every worker has joined.

    It uses every device that is visible to TensorFlow.
    """
    strategy: Strategy = importlib.import_module(f"{__package__}.{name}").join()
    return strategy
