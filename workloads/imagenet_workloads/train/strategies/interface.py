"""What the training loop asks of a strategy, and nothing else about other workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import mxnet as mx

from imagenet_workloads.train.replicas import Replicas


@dataclass(frozen=True)
class Votes:
    """What workers want to happen after the update in progress; true as soon as one wants it.

    Attributes:
        save: write a checkpoint.
        stop: write a checkpoint and leave.
    """

    save: bool = False
    stop: bool = False


class Strategy(Protocol):
    """One worker's way to the others.

    Every method but `states` and `load_states` is called by all workers, in the same order, unless
    `collective` is false.

    Attributes:
        rank: of this worker, from 0; rank 0 reports and saves.
        workers: how many there are.
        collective: whether workers keep in step and can add up numbers; if not, `add` may not be
            called, rank 0 evaluates and saves alone, and votes are its own.
        images_divisor: by how many workers' batches the sum of gradients in an update is made.
    """

    rank: int
    workers: int
    collective: bool
    images_divisor: int

    def agree(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's whole numbers (0 to 2^60 - 1) to every rank; a name is used once."""

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Give rank 0's weights and statistics to every device, and take the optimizer."""

    def update(self, votes: Votes) -> Votes:
        """Exchange gradients and move the weights; return what all workers together vote."""

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Add whole numbers up over the workers, exactly."""

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Set arrays, by name and device, to their average over devices.

        In a collective strategy over the devices of all workers, and the arrays are the network's
        moving statistics.
        """

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give the optimizer's state, or None where it is not on the workers."""

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Continue from saved states; KeyError where they are another optimizer's."""

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""

    def close(self) -> None:
        """Leave in good order; every worker closes."""
