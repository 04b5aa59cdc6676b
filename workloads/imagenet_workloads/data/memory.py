"""Memory that the process that trains shares with the programs that decode.

It is a file without a name, in memory: a program gets its descriptor. It counts as shared memory of
the pod, and needs neither /dev/shm nor a disk. Records lie in an `Arena`. Batches lie in `Slots`,
used again and again: one belongs to its batch until the step is done with that.
"""

import mmap
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Places that came back are joined with their neighbours when so many did, or when no gap is long
# enough: to join costs as much as there are gaps.
_JOINED = 64
# Slots begin at whole pages, for a device that copies from them.
_ALIGNED = 4096


class SharedMemory:
    """Some bytes, zero at first, that take no memory before they are written."""

    def __init__(self, size: int) -> None:
        size = max(size, mmap.PAGESIZE)
        if hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("imagenet-train", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        # The view has the bytes for as long as it lives; the descriptor is for programs to come.
        weakref.finalize(self, os.close, self.descriptor)
        os.ftruncate(self.descriptor, size)
        self.view = memoryview(mmap.mmap(self.descriptor, size))


class Arena:
    """Places in a shared memory of `size` bytes: each is taken for as long as an object lives."""

    def __init__(self, size: int) -> None:
        self.memory = SharedMemory(size)
        self.size = len(self.memory.view)
        # Disjoint parts without an owner, ascending: begin and end.
        self._free = [(0, self.size)]
        # A finalizer may run at any point of any thread, also within `take`.
        self._given_back: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()

    def take(self, length: int, owner: object) -> int:
        """Return where a place begins: the first one that is long enough.

        It is free again when nothing refers to `owner`. MemoryError if no place is long enough.
        """
        with self._lock:
            if len(self._given_back) >= _JOINED:
                self._join()
            begin = self._gap(length)
            if begin is None:
                self._join()
                begin = self._gap(length)
        if begin is None:
            raise MemoryError(f"no {length} bytes are left for records that are read ahead")
        finalizer = weakref.finalize(owner, self._given_back.append, (begin, begin + length))
        finalizer.atexit = False
        return begin

    def _gap(self, length: int) -> int | None:
        for at, (begin, end) in enumerate(self._free):
            if end - begin >= length:
                self._free[at] = (begin + length, end)
                return begin
        return None

    def _join(self) -> None:
        returned = [self._given_back.popleft() for _ in range(len(self._given_back))]
        joined: list[tuple[int, int]] = []
        for begin, end in sorted(self._free + returned):
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            elif begin < end:
                joined.append((begin, end))
        self._free = joined


class SlotArrays(NamedTuple):
    """The arrays of a slot: images as the recipe's layout says, and (batch size,) of the others."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    identities: NDArray[np.uint64]


@dataclass(frozen=True)
class SlotShape:
    """How slots of `size` images, of which `image` is the largest, lie in their memory."""

    size: int
    image: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return self._images + -(-16 * self.size // _ALIGNED) * _ALIGNED

    @property
    def _images(self) -> int:
        length = self.size * prod(self.image) * self.dtype.itemsize
        return -(-length // _ALIGNED) * _ALIGNED

    def arrays(
        self, memory: memoryview, slot: int, image: tuple[int, ...] | None = None
    ) -> SlotArrays:
        """Return a slot of the memory as arrays; `image` is the shape of a smaller one."""
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
    """Slots that are free, and those that are taken."""

    def __init__(self, shape: SlotShape, count: int) -> None:
        self._shape, self.memory = shape, SharedMemory(shape.bytes * count)
        self._free: SimpleQueue[tuple[int, Sequence[Callable[[], None]]]] = SimpleQueue()
        for slot in range(count):
            self.give_back(slot)

    def arrays(self, slot: int, image: tuple[int, ...] | None = None) -> SlotArrays:
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
