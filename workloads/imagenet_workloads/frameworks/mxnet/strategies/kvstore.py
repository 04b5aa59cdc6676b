"""What the strategies over an MXNet kvstore share, and the worker of a distributed kvstore."""

from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx

from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.counts import MOST_WORKERS, from_limbs, to_limbs

Compression = Mapping[str, Any]
"""Of all that is pushed, as a kvstore takes it."""


def chosen_compression(options: ClusterOptions) -> Compression | None:
    """Return the compression of --gc-type; None if it is none."""
    if options.gc_type == "none":
        return None
    return {"type": options.gc_type, "threshold": options.gc_threshold}


def gradients_by_key(replicas: Replicas) -> dict[str, list[mx.nd.NDArray]]:
    """Return the buckets of gradients on each device, by their keys in a kvstore."""
    return {f"gradient:{place}": parts for place, parts in enumerate(replicas.gradient_buckets())}


def sum_gradients(store: mx.kv.KVStore, replicas: Replicas) -> None:
    """Replace every gradient by its sum over devices and workers; the store has their keys.

    Push and pull are separate, because pushpull does not work with compression. The first layers
    have the highest priority: the next step needs them first.
    """
    for place, (key, gradients) in enumerate(gradients_by_key(replicas).items()):
        store.push(key, gradients, priority=-place)
        store.pull(key, out=gradients, priority=-place)


# A kvstore that is garbage-collected waits for all other workers in its destructor. A worker that
# fails must not: stores stay here until they are closed, and the process ends without collecting.
open_stores: list[mx.kv.KVStore] = []


class ServerStore:
    """A worker of a distributed kvstore, the base of a strategy over servers.

    Its rank is the scheduler's, not the pod's index.
    """

    def __init__(self, kv_store: str) -> None:
        self.store = mx.kv.create(kv_store)
        open_stores.append(self.store)
        self._keys = 0
        self.rank = int(self.store.rank)
        self.workers = int(self.store.num_workers)
        if self.workers > MOST_WORKERS:
            raise ValueError(f"{self.workers} workers; counts are exact for up to {MOST_WORKERS}")

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Broadcast rank 0's numbers: a kvstore takes initial values from rank 0 only."""
        limbs = mx.nd.array(to_limbs(numbers))
        self._init([f"broadcast:{name}"], [limbs])
        self.store.pull(f"broadcast:{name}", out=limbs)
        return from_limbs(limbs.asnumpy().tolist())

    def broadcast(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> int:
        """Broadcast rank 0's values to every device of every worker, under permanent keys.

        Return the servers' number of the first key; the other keys follow.
        """
        first = self._keys
        if arrays:
            keys = list(arrays)
            self._init(keys, [parts[0] for parts in arrays.values()])
            self.store.pull(keys, out=[list(parts) for parts in arrays.values()])
        return first

    def broadcast_statistics(self, replicas: Replicas) -> None:
        self.broadcast(
            {f"statistic:{name}": replicas.statistics(name) for name in replicas.statistic_names}
        )

    def reserve(self, key: str, size: int) -> None:
        """Create a key for numbers that are pushed later."""
        self._init([key], [mx.nd.zeros(size)])

    def _init(self, keys: list[str], values: list[mx.nd.NDArray]) -> None:
        # MXNet numbers keys by their creation; every worker creates them in the same order.
        self.store.init(keys, values)
        self._keys += len(keys)

    def wait_for_all(self) -> None:
        """Return when every worker has called this and has no operation in progress."""
        mx.nd.waitall()
        # MXNet has no public method for this.
        self.store._barrier()

    def close(self) -> None:
        """Leave; when the last worker has left, servers and scheduler end."""
        open_stores.remove(self.store)
        del self.store
