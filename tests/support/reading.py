"""Batches of the ordered reader, copied: the next ones use their memory again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from imagenet_spec.program.train import THREADS
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import (
    Decoding,
    ImageBatch,
    OrderedTraining,
    OrderedValidation,
    WorkerShare,
)
from imagenet_workloads.data.memory import Slots
from imagenet_workloads.records.split import Records


@contextmanager
def ordered_training(
    records: Records,
    recipe: Recipe,
    share: WorkerShare,
    decoders: int = 2,
    by: str | None = THREADS,
    epochs: int | None = None,
) -> Iterator[OrderedTraining]:
    """Read training images for as long as the block runs."""
    decoding = Decoding(decoders, by)
    training = OrderedTraining(records, recipe, share, decoding, epochs)
    try:
        yield training
    finally:
        training.close()
        decoding.close()


def copied(batches: Iterable[ImageBatch]) -> list[ImageBatch]:
    """Return batches that nothing overwrites."""
    return [replace(batch, images=batch.images.copy()) for batch in batches]


def trained(
    records: Records,
    recipe: Recipe,
    share: WorkerShare,
    epoch: int = 0,
    position: int = 0,
    decoders: int = 2,
    by: str = THREADS,
) -> list[ImageBatch]:
    """Return the batches of an epoch from a position on."""
    with ordered_training(records, recipe, share, decoders, by) as training:
        return copied(training.epoch(epoch, position))


def validated(
    records: Records, recipe: Recipe, size: int, worker: int, workers: int, by: str = THREADS
) -> list[ImageBatch]:
    """Return a worker's batches of validation images."""
    decoding = Decoding(2, by)
    try:
        return copied(OrderedValidation(records, recipe, size, decoding).batches(worker, workers))
    finally:
        decoding.close()


def poison_free_slots(patch: pytest.MonkeyPatch) -> None:
    """Overwrite the images of each slot that is given back, once nothing may read them any more."""
    give_back = Slots.give_back

    def poison(slots: Slots, slot: int, waits: Sequence[Callable[[], None]] = ()) -> None:
        for wait in waits:
            wait()
        slots.arrays(slot).images.fill(77)
        give_back(slots, slot)

    patch.setattr(Slots, "give_back", poison)
