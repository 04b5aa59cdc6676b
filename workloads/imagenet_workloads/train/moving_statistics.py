"""BatchNorm's moving statistics: averaged for evaluation and files, each device's own in training.

Each device of each worker moves its own statistics. A learner averages them before it evaluates,
saves or exports; the next training step goes on with those of each device, so that saving changes
nothing. A checkpoint holds the averages with the weights, and here those of every device, which an
attempt of as many devices goes on with. Imports no framework.

    statistics.npy      (devices of all workers, numbers), float32
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.receipts import State

FILE_NAME = "statistics.npy"

Rows = NDArray[np.float32]


class MovingStatistics:
    """The statistics of this worker's devices, averaged or each device's own.

    `of_all` are those of all devices, as they were when they were averaged; None if there are none.
    """

    def __init__(
        self,
        read: Callable[[], Rows],
        write: Callable[[Rows], None],
        gather: Callable[[Rows], Rows],
        group: Group,
    ) -> None:
        """Take what reads a copy, (devices, numbers), and what writes such rows.

        `gather` returns those of all workers by rank, (workers * devices, numbers); if the strategy
        is not collective, those of this worker.
        """
        self._read, self._write, self._gather, self._group = read, write, gather, group
        # What the next training step goes on with; None if the devices have it.
        self._own: Rows | None = None
        self.of_all: Rows | None = None

    def average(self) -> None:
        """Give all devices the averages; all workers of a collective strategy come here."""
        if self._own is not None:
            return
        own = self._read()
        if own.size:
            self.of_all, self._own = self._gather(own), own
            mean = self.of_all.mean(axis=0, dtype=np.float64).astype(np.float32)
            self._write(np.broadcast_to(mean, own.shape))

    def restore_own(self) -> None:
        """Give each device its own statistics again, before a training step."""
        if self._own is not None:
            self._write(self._own)
            self._own = None

    def load(self, folder: Path) -> None:
        """Go on with a checkpoint's statistics, if they are those of as many devices.

        The devices have the averages already, which come with the weights. InputError: the file is
        damaged.
        """
        path = folder / FILE_NAME
        if not path.exists():
            return
        try:
            saved: Rows = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path}: not a file of an array by NumPy (.npy): {error}") from None
        devices, numbers = self._read().shape
        if saved.shape == (devices * self._group.workers, numbers):
            first = devices * self._group.rank
            self._own, self.of_all = saved[first : first + devices], saved


def save(folder: Path, of_all: Rows | None) -> None:
    """Write the statistics of all devices into a checkpoint's folder."""
    if of_all is not None:
        np.save(folder / FILE_NAME, of_all, allow_pickle=False)


def state(of_all: Rows | None) -> State:
    """Return what `save` would write, for a receipt."""
    return {} if of_all is None else {"statistics": {"": of_all}}


def padded(own: Rows, rank: int, workers: int) -> Rows:
    """Return the rows of all workers with zeros for the others: their sum gathers them exactly."""
    rows = np.zeros((workers * len(own), own.shape[1]), np.float32)
    rows[rank * len(own) : (rank + 1) * len(own)] = own
    return rows
