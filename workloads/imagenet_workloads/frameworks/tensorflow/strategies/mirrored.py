"""MirroredStrategy: one worker, a copy of the network on each of its devices. Imports TensorFlow.

The strategy of several workers shares `Distributed`.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import tensorflow as tf


class Distributed:
    """A worker with the replicas of tf.distribute; implements `Strategy`."""

    collective = True

    def __init__(self, distribution: Any, rank: int, workers: int) -> None:
        self.distribution = distribution
        self.rank, self.workers = rank, workers
        self.images_divisor = workers
        self.devices = distribution.num_replicas_in_sync // workers
        self._add = tf.function(self._add_up, autograph=False)

    def total(self, tensors: Sequence[Any]) -> list[Any]:
        """Sum in one operation; call it in a replica."""
        replica = tf.distribute.get_replica_context()
        # Copies are on this replica's device; arguments and variables' values may be on none.
        copies = [tf.identity(tensor) for tensor in tensors]
        return list(replica.all_reduce(tf.distribute.ReduceOp.SUM, copies))

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Do nothing: variables start with rank 0's values, and every rank reads the files."""

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return self.add(numbers if self.rank == 0 else [0] * len(numbers))

    def add(self, numbers: Sequence[int]) -> list[int]:
        sums = self._add(tf.constant(list(numbers), tf.int64))
        return [int(number) for number in self.distribution.experimental_local_results(sums)[0]]

    def wait_for_all(self) -> None:
        self.add([0])

    def close(self) -> None:
        """Wait until the others have received the last sum, too.

        Workers fetch the parts of a sum from one another. A worker that has all parts could leave
        before another worker has fetched them. This further sum is not used, so a worker that
        misses a part of it has lost nothing.
        """
        with suppress(tf.errors.OpError):
            self.wait_for_all()

    def _add_up(self, numbers: Any) -> Any:
        return self.distribution.run(self._of_first_device, (numbers,))

    def _of_first_device(self, numbers: Any) -> Any:
        # One replica of each worker contributes.
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        first = tf.cast(number % self.devices == 0, tf.int64)
        return self.total([numbers * first])[0]


def device_names() -> list[str]:
    """Return this worker's devices: its GPUs, or all virtual devices of its CPU."""
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    return [f"{kind}:{number}" for number in range(len(tf.config.list_logical_devices(kind)))]


def join() -> Distributed:
    """Make the strategy; there are no other workers."""
    return Distributed(tf.distribute.MirroredStrategy(device_names()), rank=0, workers=1)
