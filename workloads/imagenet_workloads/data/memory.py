"""Memory that the process that trains shares with the programs that decode.

It is a file without a name, in memory: a program gets its descriptor. It counts as shared memory of
the pod, and needs neither /dev/shm nor a disk.
"""

import mmap
import os
import tempfile
import threading
import weakref
from collections import deque

# Places that came back are joined with their neighbours when so many did, or when no gap is long
# enough: to join costs as much as there are gaps.
_JOINED = 64


class SharedMemory:
    """Some bytes, zero at first, that take no memory before they are written.

    Attributes:
        descriptor: of the file.
        view: the bytes.
    """

    def __init__(self, size: int) -> None:
        """Make it; what is left of it goes with the last process that has it."""
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
    """Places in a shared memory: each as long as an object lives.

    Attributes:
        memory: all of it.
        size: its bytes.
    """

    def __init__(self, size: int) -> None:
        """Make the memory; no places together are longer."""
        self.memory = SharedMemory(size)
        self.size = len(self.memory.view)
        # Disjoint parts without an owner, ascending: begin and end.
        self._free = [(0, self.size)]
        # A finalizer may run at any point of any thread, also within `take`.
        self._given_back: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()

    def take(self, length: int, owner: object) -> int:
        """Return where a place begins: the first one that is long enough.

        Args:
            length: of the place.
            owner: it is free again when nothing refers to this object.

        Raises:
            MemoryError: no place is long enough.
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
