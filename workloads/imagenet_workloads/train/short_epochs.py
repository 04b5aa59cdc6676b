"""Epochs of a few batches, to measure a speed: `--max-batches`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from imagenet_workloads.data.worker_data import Batch, Data, TrainingData


def shortened(data: Data, most: int, accumulation_steps: int) -> Data:
    """Return the data with short epochs, and without validation images.

    Args:
        data: of a worker.
        most: batches of an epoch.
        accumulation_steps: batches per update; an epoch keeps whole updates.
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
        """Return the batches from `first_batch` on."""
        batches = self._training.epoch(number, first_batch, passed, first_image)
        return islice(batches, self.batches_per_epoch - first_batch)
