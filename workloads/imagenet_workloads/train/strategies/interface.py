"""What the learner asks of a strategy, beside what everyone asks of the group of workers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import mxnet as mx

from imagenet_workloads.train.learner import Group, Votes
from imagenet_workloads.train.replicas import Replicas

__all__ = ["Strategy", "Votes"]


class Strategy(Group, Protocol):
    """One worker's way to the others.

    Every method but `states` and `load_states` is called by all workers, in the same order, unless
    `collective` is false.
    """

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Give rank 0's weights and statistics to every device, and take the optimizer."""

    def update(self, votes: Votes) -> Votes:
        """Exchange gradients and move the weights; return what all workers together vote."""

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Set arrays, by name and device, to their average over devices.

        In a collective strategy over the devices of all workers, and the arrays are the network's
        moving statistics.
        """

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give the optimizer's state, or None where it is not on the workers."""

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Continue from saved states; KeyError where they are another optimizer's."""
