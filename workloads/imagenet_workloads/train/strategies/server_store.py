"""Joining and leaving a parameter server's kvstore, and what can be said over it at any time.

`synchronous` and `asynchronous` build on it.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_workloads.train.counts import MOST_WORKERS, from_limbs, to_limbs
from imagenet_workloads.train.replicas import Replicas

# A kvstore that is garbage-collected waits for all other workers in its destructor. A worker that
# fails must not: stores stay here until they are closed, and the process ends without collecting.
_open: list[mx.kv.KVStore] = []


class ServerStore:
    """A worker's end of a distributed kvstore.

    Attributes:
        store: MXNet's.
        rank: given by the scheduler; not the pod's index.
        workers: how many there are.
    """

    def __init__(self, kv_store: str) -> None:
        """Join; returns when every worker and server has."""
        self.store = mx.kv.create(kv_store)
        _open.append(self.store)
        self._keys = 0
        self.rank = int(self.store.rank)
        self.workers = int(self.store.num_workers)
        if self.workers > MOST_WORKERS:
            raise ValueError(f"{self.workers} workers; counts are exact for up to {MOST_WORKERS}")

    def agree(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's numbers to every rank: a kvstore takes first values from rank 0 only."""
        limbs = mx.nd.array(to_limbs(numbers))
        self._init([f"agree:{name}"], [limbs])
        self.store.pull(f"agree:{name}", out=limbs)
        return from_limbs(limbs.asnumpy().tolist())

    def spread(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> int:
        """Give rank 0's values to every device of every worker, under keys that stay.

        Args:
            arrays: by key and device.

        Returns:
            the number by which the servers know the first key; the others follow.
        """
        first = self._keys
        if arrays:
            keys = list(arrays)
            self._init(keys, [parts[0] for parts in arrays.values()])
            self.store.pull(keys, out=[list(parts) for parts in arrays.values()])
        return first

    def spread_statistics(self, replicas: Replicas) -> None:
        """Give rank 0's moving statistics to every device of every worker."""
        self.spread(
            {statistic_key(name): replicas.statistics(name) for name in replicas.statistic_names}
        )

    def reserve(self, key: str, size: int) -> None:
        """Make a key that numbers can be pushed to later."""
        self._init([key], [mx.nd.zeros(size)])

    def _init(self, keys: list[str], values: list[mx.nd.NDArray]) -> None:
        # Every worker comes by here in the same order: MXNet numbers keys as they come.
        self.store.init(keys, values)
        self._keys += len(keys)

    def wait_for_all(self) -> None:
        """Return when every worker has come here and has nothing under way."""
        mx.nd.waitall()
        # MXNet has no public name for it.
        self.store._barrier()

    def close(self) -> None:
        """Leave; the last worker to do so lets servers and scheduler end."""
        _open.remove(self.store)
        del self.store


def statistic_key(name: str) -> str:
    """Give the kvstore's key of a moving statistic of BatchNorm."""
    return f"statistic:{name}"
