"""MirroredStrategy: one worker, a copy of the network on each of its devices. Imports TensorFlow.

`Distributed` is what it has in common with the strategy of several workers.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import tensorflow as tf


class Distributed:
    """A worker whose replicas are tf.distribute's; implements `Strategy`."""

    collective = True

    def __init__(self, distribution: Any, rank: int, workers: int) -> None:
        """Take the strategy, joined already."""
        self.distribution = distribution
        self.rank, self.workers = rank, workers
        self.images_divisor = workers
        self.devices = distribution.num_replicas_in_sync // workers
        self._add = tf.function(self._add_up, autograph=False)

    def total(self, tensors: Sequence[Any]) -> list[Any]:
        """Add up in one go; called within a replica."""
        replica = tf.distribute.get_replica_context()
        # Copies are on this replica's device; arguments and variables' values may be on none.
        copies = [tf.identity(tensor) for tensor in tensors]
        return list(replica.all_reduce(tf.distribute.ReduceOp.SUM, copies))

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Do nothing: variables begin with rank 0's values, and files are read by every rank."""

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's numbers to every rank."""
        return self.add(numbers if self.rank == 0 else [0] * len(numbers))

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Add up, as 64-bit integers."""
        sums = self._add(tf.constant(list(numbers), tf.int64))
        return [int(number) for number in self.distribution.experimental_local_results(sums)[0]]

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""
        self.add([0])

    def close(self) -> None:
        """Stay until the others have got the last sum, too.

        Workers fetch the parts of a sum from one another, so that who has all of it may leave
        somebody without. Of this further sum nobody needs a part: who misses one is the last here.
        """
        with suppress(tf.errors.OpError):
            self.wait_for_all()

    def _add_up(self, numbers: Any) -> Any:
        return self.distribution.run(self._of_first_device, (numbers,))

    def _of_first_device(self, numbers: Any) -> Any:
        # One replica of each worker speaks for it.
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        first = tf.cast(number % self.devices == 0, tf.int64)
        return self.total([numbers * first])[0]


def device_names() -> list[str]:
    """Name this worker's devices: its GPUs, or else all that its CPU is cut into."""
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    return [f"{kind}:{number}" for number in range(len(tf.config.list_logical_devices(kind)))]


def join() -> Distributed:
    """Make the strategy; there is nobody to wait for."""
    return Distributed(tf.distribute.MirroredStrategy(device_names()), rank=0, workers=1)
