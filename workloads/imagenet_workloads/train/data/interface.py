"""What the training loop and the evaluation ask of data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import mxnet as mx


@dataclass(frozen=True)
class Batch:
    """One step's images.

    Attributes:
        data: (batch size, channels, height, width), float32.
        label: (batch size,), float32.
        images: how many of them, from the first, are to be counted; the rest is padding.
    """

    data: mx.nd.NDArray
    label: mx.nd.NDArray
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
