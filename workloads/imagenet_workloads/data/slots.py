"""The memory of batches: some slots, used again and again, that decoders fill and a step reads.

A slot belongs to the batch that is made in it until the step is done with that batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.data.memory import SharedMemory

_ALIGNED = 4096


class SlotArrays(NamedTuple):
    """The arrays of a slot.

    Attributes:
        images: of the batch, as the recipe's layout says.
        labels: (batch size,), int64.
        identities: (batch size,), uint64, of the records.
    """

    images: NDArray[Any]
    labels: NDArray[np.int64]
    identities: NDArray[np.uint64]


@dataclass(frozen=True)
class SlotShape:
    """How the slots lie in their memory, one behind the other.

    Attributes:
        size: images of a batch.
        image: the shape of the largest one.
        dtype: of its numbers.
    """

    size: int
    image: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """Of a slot."""
        return self._images + -(-16 * self.size // _ALIGNED) * _ALIGNED

    @property
    def _images(self) -> int:
        length = self.size * prod(self.image) * self.dtype.itemsize
        return -(-length // _ALIGNED) * _ALIGNED

    def arrays(
        self, memory: memoryview, slot: int, image: tuple[int, ...] | None = None
    ) -> SlotArrays:
        """Return a slot of the memory as arrays.

        Args:
            memory: of all slots.
            slot: from 0.
            image: the shape of one, if images are smaller than the largest.
        """
        shape = image or self.image
        begin = slot * self.bytes
        numbers = begin + self._images
        count = self.size * prod(shape)
        return SlotArrays(
            np.frombuffer(memory, self.dtype, count, begin).reshape(self.size, *shape),
            np.frombuffer(memory, np.int64, self.size, numbers),
            np.frombuffer(memory, np.uint64, self.size, numbers + 8 * self.size),
        )


class Slots:
    """Slots that are free, and those that are taken.

    Attributes:
        memory: all of them.
    """

    def __init__(self, shape: SlotShape, count: int) -> None:
        """Make the slots."""
        self._shape, self.memory = shape, SharedMemory(shape.bytes * count)
        self._free: SimpleQueue[tuple[int, Sequence[Callable[[], None]]]] = SimpleQueue()
        for slot in range(count):
            self.give_back(slot)

    def arrays(self, slot: int, image: tuple[int, ...] | None = None) -> SlotArrays:
        """Return the arrays of a slot; `image` is the shape of one, None that of the largest."""
        return self._shape.arrays(self.memory.view, slot, image)

    def take(self) -> int:
        """Wait for a free slot, and for what still reads it."""
        slot, waits = self._free.get()
        for wait in waits:
            wait()
        return slot

    def give_back(self, slot: int, waits: Sequence[Callable[[], None]] = ()) -> None:
        """Free a slot; each of `waits` returns when a device has copied from it."""
        self._free.put((slot, waits))
