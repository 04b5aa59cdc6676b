"""dist_async: servers update the weights with each worker's gradient as it comes.

The optimizer and its state live on the servers, from where MXNet cannot fetch them, so checkpoints
hold none: a resumed training starts with fresh momentum. Workers do not keep in step: nothing is
added up over them, rank 0 evaluates and saves the weights as it last got them.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    Compression,
    ServerStore,
    average_over_devices,
    chosen_compression,
    compress,
)
from imagenet_workloads.train.options.groups import ClusterOptions


def join(options: ClusterOptions) -> "Asynchronous":
    """Join the others."""
    return Asynchronous(options.kv_store, chosen_compression(options))


class Asynchronous:
    """One of several workers that do not wait for each other; implements `Strategy`."""

    collective = False
    images_divisor = 1

    def __init__(self, kv_store: str, compression: Compression | None) -> None:
        """Join the others."""
        self._server = ServerStore(kv_store)
        self._compression = compression
        self.rank = self._server.rank
        self.workers = self._server.workers

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's numbers to every rank."""
        return self._server.broadcast_from_rank0(name, numbers)

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Give rank 0's values to every device, and the optimizer to the servers."""
        self._replicas = replicas
        names = replicas.weight_names
        first = self._server.broadcast({name: replicas.weights(name) for name in names})
        self._server.broadcast_statistics(replicas)
        # There the optimizer knows weights by number only, and biases must not decay.
        optimizer.idx2name = dict(enumerate(names, start=first))
        if self._compression is not None:
            compress(self._server.store, self._compression)
        if self.rank == 0:
            # Only once: a second one would drop the state that the first has gathered.
            self._server.store.set_optimizer(optimizer)
        # A gradient that comes before the optimizer ends the server.
        self._server.wait_for_all()

    def update(self, flags: Flags) -> Flags:
        """Send the gradients, take the weights as they are then; the flags are its own."""
        for place, name in enumerate(self._replicas.weight_names):
            self._server.store.push(name, self._replicas.gradients(name), priority=-place)
            self._server.store.pull(name, out=self._replicas.weights(name), priority=-place)
        return flags

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Not possible; see `collective`."""
        raise RuntimeError("dist_async does not add numbers up over workers")

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Average over the devices of this worker; the others are somewhere else."""
        average_over_devices(arrays)

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give None: the state is on the servers."""
        return None

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Do nothing: the servers begin with fresh state."""

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""
        self._server.wait_for_all()

    def close(self) -> None:
        """Leave in good order."""
        self._server.close()
