"""What a worker trains on and is evaluated on: batches with a known order and a known number.

A framework implements the protocols; the loop and the evaluation use them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.dataset import Dataset
from imagenet_workloads.records.split import Records
from imagenet_workloads.telemetry.training import ReadingTimes


@dataclass(frozen=True)
class RecordsRead:
    """The records of a worker's batch, for the ledger.

    Attributes:
        first: position of the first image of all workers' batches.
        identities: (images,), uint64, what the records say of themselves.
    """

    epoch: int
    first: int
    identities: NDArray[np.uint64]


@dataclass(frozen=True)
class Batch:
    """One step's images, as arrays of the framework that reads them.

    What is in `data` is overwritten once the next batch is asked for and all `waits` have returned:
    the batches of a training share some memory, which is used again.

    Attributes:
        data: (batch size, channels, height, width), float32; channels come last in TensorFlow
            and PyTorch, there for a GPU as bytes.
        label: (batch size,), float32.
        images: how many of them, from the first, are to be counted; the rest is padding.
        read: the records of the images, if they have an order.
        mixing: how they are to be mixed, as `draw_mixing` says; None if they are not.
        waits: whoever reads `data` beside the program, as a GPU copies it, adds a function that
            returns when that is done.
        cpu_seconds: of this thread, that the framework took to make its arrays.
    """

    data: Any
    label: Any
    images: int
    read: RecordsRead | None = None
    mixing: Any = None
    waits: list[Callable[[], None]] = field(default_factory=list)
    cpu_seconds: float = 0.0


class TrainingData(Protocol):
    """A worker's share of the training images, in another order every epoch.

    Attributes:
        batches_per_epoch: the same number on every rank, whatever the size of its share.
        images: of all workers together.
    """

    batches_per_epoch: int
    images: int

    @property
    def ordered_batch(self) -> int | None:
        """Images of a batch over all workers, if they have the order of `data.order`.

        None if their order depends on the number of workers.
        """

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        """Return an epoch's batches from `first_batch` on; the same ones whenever they are asked.

        `passed` is called for each batch before it that must be read. With an order, the first
        batch leaves out the images before `first_image`.
        """


class ValidationData(Protocol):
    """The validation images of all ranks, each in exactly one batch of exactly one rank."""

    images: int

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        """Return one rank's batches; a rank may have none."""


@dataclass(frozen=True)
class Data:
    """What a worker trains on.

    Attributes:
        classes: their names by label; empty if unknown.
        class_words: what people call a class, of some classes.
        key: the dataset's.
        close: ends what reads it.
        times: of the reading so far; None if they are not measured.
        validation_records: finds the validation images by their positions in the split; they stay
            open.
    """

    training: TrainingData
    validation: ValidationData | None
    inputs: Inputs
    classes: tuple[str, ...]
    class_count: int
    key: str | None
    class_words: Mapping[str, str] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None
    times: Callable[[], ReadingTimes | None] = lambda: None
    dataset: Dataset | None = None
    validation_records: Callable[[], Records] | None = None


def shortened(data: Data, most: int, accumulation_steps: int) -> Data:
    """Return the data with epochs of at most so many batches, and without validation.

    That measures a speed. An epoch keeps whole updates of `accumulation_steps` batches.
    """
    whole = max(most // accumulation_steps, 1) * accumulation_steps
    return replace(data, training=_ShortTraining(data.training, whole), validation=None)


class _ShortTraining:
    """The first batches of each epoch; implements `TrainingData`.

    No ledger is kept, because it would miss the rest of each epoch.
    """

    ordered_batch = None

    def __init__(self, training: TrainingData, most: int) -> None:
        self._training = training
        self.batches_per_epoch = min(most, training.batches_per_epoch)
        self.images = training.images * self.batches_per_epoch // training.batches_per_epoch

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        batches = self._training.epoch(number, first_batch, passed, first_image)
        return islice(batches, self.batches_per_epoch - first_batch)
