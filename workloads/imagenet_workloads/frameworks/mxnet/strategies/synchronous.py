"""dist_sync and dist_device_sync: each update uses one batch from every worker.

The servers only sum. The optimizer runs on every worker, on equal sums and equal weights, so its
state can be saved and weights never differ. If a server ran the optimizer, it would treat every sum
as a gradient, and evaluation counts could not be summed.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.frameworks.mxnet.optimizers import LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    Compression,
    ServerStore,
    chosen_compression,
    gradients_by_key,
    sum_gradients,
)
from imagenet_workloads.train.counts import LIMBS, from_limbs, to_limbs
from imagenet_workloads.train.moving_statistics import Rows, padded

_FLAGS = "flags"
_SUM = "sum"
_STATISTICS = "statistics"
# The most numbers that `add` takes; the size of a key in the kvstore is fixed.
SUM_WIDTH = 16


def join(options: ClusterOptions) -> "Synchronous":
    """Join the others."""
    return Synchronous(options.kv_store, chosen_compression(options))


class Synchronous(ServerStore):
    """One of several synchronised workers; implements `Strategy`.

    With compression, all that is pushed is rounded to the threshold. Only gradients can be pushed
    then, so the strategy is not collective.
    """

    def __init__(self, kv_store: str, compression: Compression | None) -> None:
        super().__init__(kv_store)
        self._compression = compression
        self.collective = compression is None
        self.images_divisor = self.workers
        self.gradients_ready: float | None = None

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        self._replicas = replicas
        weights = [
            pair
            for name in replicas.weight_names
            for pair in zip(replicas.weights(name), replicas.gradients(name), strict=True)
        ]
        # Under the keys of the gradients: servers would keep further keys until they end.
        for weight, gradient in weights:
            weight.copyto(gradient)
        self.broadcast(gradients_by_key(replicas))
        for weight, gradient in weights:
            gradient.copyto(weight)
        replicas.clear_gradients()
        self.broadcast_statistics(replicas)
        self._updater = LocalUpdater(optimizer, replicas)
        self.reserve(_FLAGS, len(Flags().numbers()))
        self.reserve(_SUM, SUM_WIDTH * LIMBS)
        if statistics := replicas.read_statistics().size:
            self.reserve(_STATISTICS, statistics * self.workers)
        if self._compression is not None:
            self.store.set_gradient_compression(self._compression)
            # Only rank 0 sends the setting. A server takes earlier gradients for uncompressed
            # ones.
            self.wait_for_all()

    def update(self, flags: Flags) -> Flags:
        """Sum the gradients and update the weights; return the flags of all workers."""
        backward_is_over = self._replicas.gradients_marker()
        flags_sent = mx.nd.array(flags.numbers())
        if self.collective:
            # Before the gradients, so that flags do not wait for a backward pass.
            self.store.push(_FLAGS, flags_sent, priority=1)
            self.store.pull(_FLAGS, out=flags_sent, priority=1)
        sum_gradients(self.store, self._replicas)
        self._updater()
        # Before the flags: they wait until each worker has its data.
        self.gradients_ready = backward_is_over()
        return Flags.of(flags_sent.asnumpy())

    def add(self, numbers: Sequence[int]) -> list[int]:
        padded = [*numbers, *[0] * (SUM_WIDTH - len(numbers))]
        limbs = mx.nd.array(to_limbs(padded))
        self.store.push(_SUM, limbs)
        self.store.pull(_SUM, out=limbs)
        return from_limbs(limbs.asnumpy().tolist())[: len(numbers)]

    def gather(self, own: Rows) -> Rows:
        """Sum rows that are zero but on one worker; only this worker's if it is not collective."""
        if not self.collective:
            return own
        sent = mx.nd.array(padded(own, self.rank, self.workers).ravel())
        self.store.push(_STATISTICS, sent)
        self.store.pull(_STATISTICS, out=sent)
        found: Rows = sent.asnumpy().reshape(-1, own.shape[1])
        return found

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        return self._updater.states()

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        self._updater.load_states(states)
