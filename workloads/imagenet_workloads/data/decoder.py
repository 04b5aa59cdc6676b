"""What a decoder does, a thread or a program: records in shared memory become images in a slot.

A task is numbers alone. The random numbers of an image are drawn here, from its position.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from imagenet_workloads.data.augmentation import Recipe, training_pixels, validation_pixels
from imagenet_workloads.data.memory import SlotShape
from imagenet_workloads.data.order import uniform_draws
from imagenet_workloads.records import FORMATS


@dataclass(frozen=True)
class Stage:
    """What images are decoded for; validation has no seed of augmentation."""

    recipe: Recipe
    shape: SlotShape
    seed: int | None = None


class Encoded(NamedTuple):
    """A record to decode: its format by its number in FORMATS, and its place in the memory."""

    number: int
    format: int
    begin: int
    length: int


class Task(NamedTuple):
    """Some neighbours in a batch.

    Attributes:
        place: of the first one in the batch.
        position: of the first one in the epoch, for training.
        stride: from one position to the next.
    """

    stage: int
    slot: int
    place: int
    epoch: int
    position: int
    stride: int
    records: Sequence[Encoded]


class DamagedRecordError(Exception):
    """A record, by its number, is no image."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, what)
        self.number, self.what = number, what


class Decoder:
    """Decodes in this process, from a `read` of the records into the slots of each stage."""

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        stages: Sequence[Stage],
        memories: Sequence[memoryview],
    ) -> None:
        # Otherwise OpenCV would start threads of its own.
        cv2.setNumThreads(1)
        self._read, self._stages, self._memories = read, stages, memories

    def run(self, task: Task) -> None:
        """Decode a task; DamagedRecordError if a record is no image."""
        stage = self._stages[task.stage]
        recipe, layout = stage.recipe.of_epoch(task.epoch), stage.recipe.layout
        images, labels, identities = stage.shape.arrays(
            self._memories[task.stage], task.slot, recipe.image
        )
        draws = None
        if stage.seed is not None:
            end = task.position + task.stride * len(task.records)
            positions = np.arange(task.position, end, task.stride)
            draws = uniform_draws(stage.seed, task.epoch, positions, recipe.draws).tolist()
        for at, (number, format, begin, length) in enumerate(task.records):
            place = task.place + at
            try:
                found = FORMATS[format].parse(self._read(begin, length))
                labels[place], identities[place] = found.label, found.identity
                if draws is None:
                    pixels = validation_pixels(found.encoded, recipe)
                else:
                    pixels = training_pixels(found.encoded, draws[at], recipe)
                layout.put(images, place, pixels)
            except ValueError as error:
                raise DamagedRecordError(number, str(error)) from None
