"""What training asks of a framework, and of the network that learns on this worker's devices.

`trainer` and `loop` use these protocols and nothing else of a framework. A package of `frameworks`
implements them. Imports no framework.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from imagenet_spec.events import Event
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.train.group import Flags, Group
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.schedule import Schedule


@dataclass(frozen=True)
class Outputs:
    """What the network says of a batch, without its padding.

    A device finds out itself where the right classes stand: that is some numbers an image in place
    of all probabilities.

    Attributes:
        labels: (images,), the right classes.
        right: (images,), the probability of the right class.
        ahead: (images,), how many classes are more likely, or have a probability that is no number.
        alike: (images,), how many other classes are as likely.
        some: returns the probabilities of the images that are chosen, (chosen, classes), by an
            array of booleans, (images,).
        wait: returns when a device has written the arrays; None if they have their values.
        starved: whether the device had computed the gradients before the program had launched the
            update, so that it waits for the program; None if that is not known.
    """

    classes: int
    labels: NDArray[np.float32]
    right: NDArray[np.float32]
    ahead: NDArray[np.float32]
    alike: NDArray[np.float32]
    some: Callable[[NDArray[np.bool_]], NDArray[np.float32]]
    wait: Callable[[], None] | None = None
    starved: bool | None = None

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """All probabilities, (images, classes)."""
        if self.wait is not None:
            self.wait()
        return self.some(np.ones(len(self.labels), np.bool_))

    @classmethod
    def of(cls, probabilities: NDArray[np.float32], labels: NDArray[np.float32]) -> Self:
        """Return the outputs of a batch whose probabilities, (images, classes), are in memory.

        A label that is no class counts as the nearest one here; `counts` refuses it.
        """
        classes = probabilities.shape[1]
        wanted = np.clip(labels.astype(np.int64), 0, classes - 1)[:, None]
        right = np.take_along_axis(probabilities, wanted, axis=1)
        return cls(
            classes,
            labels,
            right[:, 0],
            # Not `probabilities > right`, which leaves NaN out.
            (~(probabilities <= right)).sum(axis=1, dtype=np.float32),
            (probabilities == right).sum(axis=1, dtype=np.float32) - 1,
            lambda chosen: probabilities[chosen],
        )


@dataclass(frozen=True)
class UpdatePlan:
    """How the weights move from the start on.

    `images_per_update` are those of all workers; an update follows the mean of their gradients.
    """

    accumulation_steps: int
    images_per_update: int
    schedule: Schedule
    updates_done: int


class Snapshot(Protocol):
    """What a learner had learned at a moment, in memory that training does not touch.

    Another thread calls its methods while training goes on, each at most once.
    """

    def save(self, folder: Path) -> None:
        """Fill a checkpoint's folder with what `Framework.learner` goes on from."""

    def state(self) -> State:
        """Return what `save` would write, for a receipt."""


class Learner(Protocol):
    """A network with its optimizer, on this worker's devices."""

    @property
    def compiled(self) -> bool | None:
        """Whether compiled code trains; None where it was not chosen."""

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        """Learn from this worker's batch, together with the other workers.

        If it `updates`, the weights move after it; otherwise its gradients are kept for later.
        Return the flags of all workers (none without an update), and the outputs of the network
        before the weights moved.
        """

    def gradients_ready(self) -> float | None:
        """Return when this worker's gradients were ready for the exchange, by time.monotonic.

        It is asked once after each `train`. None after a step without an update, without other
        workers, and where the moment is not known.
        """

    def settle(self) -> None:
        """Return when what reading a batch would wait for as well is computed.

        Called before each batch is asked for, so that waiting for data is that and nothing else.
        """

    def predict(self, batch: Batch) -> Outputs:
        """Classify a batch with the weights and statistics as they are; no other worker needed."""

    def average_statistics(self) -> None:
        """Average statistics over all devices, of all workers where they are collective.

        `predict`, `snapshot` and `export` then use the averages. The next training step goes
        on with each device's own, so that the training is the same without this call.
        """

    def snapshot(self) -> Snapshot:
        """Copy weights, statistics and the optimizer's state; rank 0 alone."""

    def load(self, folder: Path) -> None:
        """Take the weights and statistics of a checkpoint of this training.

        `predict` and `export` follow, and no training step. All ranks that validate come here
        together. InputError: a file is damaged.
        """

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        """Write the model for others to load, each file renamed into place; rank 0 alone.

        Return the files' names by what they are, for result.json.
        """

    def note(self, event: Event) -> None:
        """Receive the events of the attempt's log, for the framework's own logs."""


class Framework(Protocol):
    """What trains; `name` is that in the resource and in result.json."""

    name: str

    def check(self) -> None:
        """Raise InputError if the options do not work with it, or on this machine."""

    def join(self) -> Group:
        """Wait for the others."""

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        """Open the data; `accumulation_steps` batches make one update.

        InputError: no data is named, or it cannot be read.
        """

    def wait_to_read(self, batch: Batch) -> None:
        """Return when the batch's images are there."""

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> Learner:
        """Build the network and give it and its optimizer what the start names.

        InputError: there is no such network or optimizer, or what is to be loaded does not fit.
        """
