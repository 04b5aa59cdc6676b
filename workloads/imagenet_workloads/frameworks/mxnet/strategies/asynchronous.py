"""dist_async: servers update the weights with each worker's gradient as it arrives.

The optimizer and its state are on the servers, and MXNet cannot fetch them from there. So
checkpoints do not hold the state, and a resumed training starts without momentum. Workers are not
synchronised and sum nothing: rank 0 evaluates and saves the weights that it pulled last.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    Compression,
    ServerStore,
    chosen_compression,
)
from imagenet_workloads.train.moving_statistics import Rows


def join(options: ClusterOptions) -> "Asynchronous":
    """Join the others."""
    return Asynchronous(options.kv_store, chosen_compression(options))


class Asynchronous(ServerStore):
    """One of several workers that do not wait for each other; implements `Strategy`."""

    collective = False
    images_divisor = 1
    gradients_ready: float | None = None

    def __init__(self, kv_store: str, compression: Compression | None) -> None:
        super().__init__(kv_store)
        self._compression = compression

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        self._replicas = replicas
        names = replicas.weight_names
        first = self.broadcast({name: replicas.weights(name) for name in names})
        self.broadcast_statistics(replicas)
        # On the servers the optimizer knows weights by number only, and biases must not decay.
        optimizer.idx2name = dict(enumerate(names, start=first))
        if self._compression is not None:
            self.store.set_gradient_compression(self._compression)
        if self.rank == 0:
            # Only once: a second one would drop the state that the first has gathered.
            self.store.set_optimizer(optimizer)
        # A gradient that arrives before the optimizer ends the server.
        self.wait_for_all()

    def update(self, flags: Flags) -> Flags:
        """Push the gradients, pull the current weights; return this worker's own flags."""
        for place, name in enumerate(self._replicas.weight_names):
            self.store.push(name, self._replicas.gradients(name), priority=-place)
            self.store.pull(name, out=self._replicas.weights(name), priority=-place)
        return flags

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Not possible; see `collective`."""
        raise RuntimeError("dist_async does not sum numbers over workers")

    def gather(self, own: Rows) -> Rows:
        """Return those of this worker; others are at another step."""
        return own

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        return None

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Do nothing: the servers start without state."""
