"""What training asks of a framework: a group of workers, and what learns in this one.

`session` and the loop in `fit` know nothing else. `with_mxnet` is MXNet's implementation, the
package `tensorflow` is TensorFlow's. Imports neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.telemetry.events import Event
from imagenet_workloads.train.data.interface import Batch, Data
from imagenet_workloads.train.schedule import Schedule
from imagenet_workloads.train.start import Start


@dataclass(frozen=True)
class Votes:
    """What workers want to happen after the update in progress; true as soon as one wants it.

    Attributes:
        save: write a checkpoint.
        stop: write a checkpoint and leave.
    """

    save: bool = False
    stop: bool = False


@dataclass(frozen=True)
class Outputs:
    """What the network says of a batch, without its padding.

    Attributes:
        probabilities: (images, classes).
        labels: (images,), the right classes.
    """

    probabilities: NDArray[np.float32]
    labels: NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    """How the weights move from the start on.

    Attributes:
        together: batches that make one update.
        images_per_update: over all workers; an update follows the mean of their gradients.
        schedule: of the learning rate.
        updates_done: of the weights so far.
    """

    together: int
    images_per_update: int
    schedule: Schedule
    updates_done: int


class Group(Protocol):
    """The workers of a training, as one of them sees them.

    Every method is called by all workers, in the same order, unless `collective` is false.

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

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Add whole numbers up over the workers, exactly."""

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""

    def close(self) -> None:
        """Leave in good order; every worker closes."""


class Learner(Protocol):
    """A network with its optimizer, on this worker's devices."""

    def train(self, batch: Batch, updates: bool, votes: Votes) -> tuple[Votes, Outputs]:
        """Learn from a batch, together with the other workers.

        Args:
            batch: this worker's.
            updates: whether the weights move after it; otherwise its gradients are kept for later.
            votes: this worker's.

        Returns:
            what all workers together vote (nothing without an update), and what the network said
            before the weights moved.
        """

    def settle(self) -> None:
        """Return when what reading a batch would wait for as well is computed.

        Called before each batch is asked for, so that waiting for data is that and nothing else.
        """

    def predict(self, batch: Batch) -> Outputs:
        """Classify a batch with the weights and statistics as they are; no other worker needed."""

    def average_statistics(self) -> None:
        """Give all devices, of all workers where they are collective, one set of statistics."""

    def save(self, folder: Path) -> None:
        """Fill a checkpoint's folder with what `Framework.learner` goes on from; rank 0 alone."""

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        """Write the model for others to load, each file renamed into place; rank 0 alone.

        Returns:
            the files' names by what they are, for result.json.
        """

    def note(self, event: Event) -> None:
        """Hear what the attempt's log is told, for logs of the framework's own."""


class Framework(Protocol):
    """What trains.

    Attributes:
        name: as in the resource and in result.json.
    """

    name: str

    def check(self) -> None:
        """Check what is known before the others are.

        Raises:
            InputError: the options do not work with it, or on this machine.
        """

    def join(self) -> Group:
        """Wait for the others."""

    def open_data(self, together: int, scratch: Path) -> Data:
        """Open the data; `together` batches make one update.

        Raises:
            InputError: no data is named, or it cannot be read.
        """

    def wait_to_read(self, batch: Batch) -> None:
        """Return when the batch's images are there."""

    def learner(self, data: Data, begin: Start, plan: Plan) -> Learner:
        """Build the network and give it and its optimizer what the start names.

        Raises:
            InputError: there is no such network or optimizer, or what is to be loaded does not fit.
        """
