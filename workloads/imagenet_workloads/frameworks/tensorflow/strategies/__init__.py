"""What the learner asks of a strategy, beside what everyone asks of the group of workers."""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from imagenet_workloads.train.group import Group


class Strategy(Group, Protocol):
    """One worker's way to its devices and to the others.

    Attributes:
        distribution: tf.distribute's, in whose scope variables are made and whose `run` makes one
            replica of a step for each device of this worker.
        devices: of this worker.
    """

    distribution: Any
    devices: int

    def total(self, tensors: Sequence[Any]) -> list[Any]:
        """Add tensors up over all replicas of all workers; called within a replica."""

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Give rank 0's values to every worker."""


def join(name: str) -> Strategy:
    """Make the strategy of a name, which is a module's here; returns when every worker has joined.

    It takes every device that is visible to TensorFlow.
    """
    strategy: Strategy = importlib.import_module(f"{__package__}.{name}").join()
    return strategy
