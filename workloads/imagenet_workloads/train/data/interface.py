"""What the training loop and the evaluation ask of data, whatever the framework that reads it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from imagenet_workloads.train.data.inputs import Inputs


@dataclass(frozen=True)
class Batch:
    """One step's images, as arrays of the framework that reads them.

    With MXNet the arrays are filled anew once the next batch is asked for: see `records`.

    Attributes:
        data: (batch size, channels, height, width), float32; channels come last in TensorFlow.
        label: (batch size,), float32.
        images: how many of them, from the first, are to be counted; the rest is padding.
    """

    data: Any
    label: Any
    images: int


class TrainingData(Protocol):
    """A worker's share of the training images, in another order every epoch.

    Attributes:
        batches_per_epoch: the same number on every rank, whatever the size of its share.
        images: of all workers together.
    """

    batches_per_epoch: int
    images: int

    def epoch(self, number: int, first_batch: int) -> Iterator[Batch]:
        """Give an epoch's batches from `first_batch` on; the same ones whenever they are asked."""


class ValidationData(Protocol):
    """The validation images, each in exactly one batch of exactly one rank.

    Attributes:
        images: of all ranks together.
    """

    images: int

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        """Give one rank's batches; a rank may have none."""


@dataclass(frozen=True)
class Data:
    """What a worker trains on.

    Attributes:
        training: the images.
        validation: None where there are none.
        inputs: how they are prepared.
        classes: their names by label; empty where nobody says.
        class_count: how many there are.
        key: the dataset's; None without one.
    """

    training: TrainingData
    validation: ValidationData | None
    inputs: Inputs
    classes: tuple[str, ...]
    class_count: int
    key: str | None
