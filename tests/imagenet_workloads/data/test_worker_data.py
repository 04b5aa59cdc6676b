"""Epochs that end after `--max-batches`."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from imagenet_workloads.data.inputs import plain_inputs
from imagenet_workloads.data.worker_data import Batch, Data, shortened


class Numbers:
    """Ten batches of two images an epoch; the data of a batch is its number."""

    batches_per_epoch, images, ordered_batch = 10, 20, 2

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        for _ in range(first_batch):
            passed()
        return (Batch(at, None, 2) for at in range(first_batch, 10))


@pytest.mark.parametrize(
    ("most", "steps", "batches"), [(4, 1, 4), (5, 2, 4), (1, 2, 2), (10, 1, 10), (50, 1, 10)]
)
def test_an_epoch_ends_early_with_whole_updates(most: int, steps: int, batches: int) -> None:
    validation: Any = object()
    data = Data(Numbers(), validation, plain_inputs((3, 8, 8)), (), 10, None)

    short = shortened(data, most, steps)

    assert short.training.batches_per_epoch == batches
    assert short.training.images == 2 * batches
    assert [batch.data for batch in short.training.epoch(0, 0)] == list(range(batches))
    assert [batch.data for batch in short.training.epoch(0, 1)] == list(range(1, batches))
    assert (short.training.ordered_batch, short.validation) == (None, None)


def test_a_skipped_batch_is_progress_of_a_short_epoch_too() -> None:
    data = Data(Numbers(), None, plain_inputs((3, 8, 8)), (), 10, None)
    passed: list[bool] = []
    shortened(data, 4, 1).training.epoch(0, 3, lambda: passed.append(True))
    assert len(passed) == 3
