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

from imagenet_workloads.reading.memory import SharedMemory

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
        image: the shape of one.
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

    def arrays(self, memory: memoryview, slot: int) -> SlotArrays:
        """Return a slot of the memory as arrays."""
        begin = slot * self.bytes
        numbers = begin + self._images
        count = self.size * prod(self.image)
        return SlotArrays(
            np.frombuffer(memory, self.dtype, count, begin).reshape(self.size, *self.image),
            np.frombuffer(memory, np.int64, self.size, numbers),
            np.frombuffer(memory, np.uint64, self.size, numbers + 8 * self.size),
        )


class Slots:
    """Slots that are free, and those that are taken.

    Attributes:
        memory: all of them.
        arrays: of each.
    """

    def __init__(self, shape: SlotShape, count: int) -> None:
        """Make the slots."""
        self.memory = SharedMemory(shape.bytes * count)
        self.arrays = [shape.arrays(self.memory.view, slot) for slot in range(count)]
        self._free: SimpleQueue[tuple[int, Sequence[Callable[[], None]]]] = SimpleQueue()
        for slot in range(count):
            self.give_back(slot)

    def take(self) -> int:
        """Wait for a free slot, and for what still reads it."""
        slot, waits = self._free.get()
        for wait in waits:
            wait()
        return slot

    def give_back(self, slot: int, waits: Sequence[Callable[[], None]] = ()) -> None:
        """Free a slot; each of `waits` returns when a device has copied from it."""
        self._free.put((slot, waits))
