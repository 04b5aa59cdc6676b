"""dist_sync and dist_device_sync: every update is made of one batch from each worker.

The servers only add up; the optimizer runs on every worker, on equal sums and equal weights, so
its state can be saved and weights never differ. A server that ran the optimizer would take every
sum for a gradient, and evaluation counts could not be added up.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_workloads.frameworks.mxnet.optimizers import LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    Compression,
    ServerStore,
    average_over_devices,
    chosen_compression,
    compress,
    gradients_by_key,
    statistic_key,
    sum_gradients,
)
from imagenet_workloads.train.counts import LIMBS, from_limbs, to_limbs
from imagenet_workloads.train.options.groups import ClusterOptions

_FLAGS = "flags"
_SUM = "sum"
# Numbers that `add` takes at most; a key of the kvstore has one size for ever.
SUM_WIDTH = 16


def join(options: ClusterOptions) -> "Synchronous":
    """Join the others."""
    return Synchronous(options.kv_store, chosen_compression(options))


class Synchronous:
    """One of several workers in step; implements `Strategy`.

    With compression nothing but gradients can be pushed (all is rounded to the threshold), so then
    it is not collective.
    """

    def __init__(self, kv_store: str, compression: Compression | None) -> None:
        """Join the others."""
        self._server = ServerStore(kv_store)
        self._compression = compression
        self.rank = self._server.rank
        self.workers = self._server.workers
        self.collective = compression is None
        self.images_divisor = self.workers

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's numbers to every rank."""
        return self._server.broadcast_from_rank0(name, numbers)

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Give rank 0's values to every device, and keep the optimizer here."""
        self._replicas = replicas
        self._broadcast_weights(replicas)
        self._server.broadcast_statistics(replicas)
        self._updater = LocalUpdater(optimizer, replicas)
        self._server.reserve(_FLAGS, 2)
        self._server.reserve(_SUM, SUM_WIDTH * LIMBS)
        if self._compression is not None:
            compress(self._server.store, self._compression)
            # Only rank 0 tells the servers. A gradient that comes before they know is taken for
            # one that is not compressed.
            self._server.wait_for_all()

    def _broadcast_weights(self, replicas: Replicas) -> None:
        """Give rank 0's weights to every device, by way of the gradients: servers know only those.

        They would keep what has a key of its own for as long as they live.
        """
        pairs = [
            pair
            for name in replicas.weight_names
            for pair in zip(replicas.weights(name), replicas.gradients(name), strict=True)
        ]
        for weight, gradient in pairs:
            weight.copyto(gradient)
        self._server.broadcast(gradients_by_key(replicas))
        for weight, gradient in pairs:
            gradient.copyto(weight)
        replicas.clear_gradients()

    def update(self, flags: Flags) -> Flags:
        """Add gradients up, move the weights; the flags are everybody's."""
        flags_sent = mx.nd.array([flags.save, flags.stop])
        if self.collective:
            # Before the gradients: no worker's flags wait for another's backward pass.
            self._server.store.push(_FLAGS, flags_sent, priority=1)
            self._server.store.pull(_FLAGS, out=flags_sent, priority=1)
        sum_gradients(self._server.store, self._replicas)
        self._updater()
        save, stop = flags_sent.asnumpy() > 0
        return Flags(bool(save), bool(stop))

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Add up over the workers; up to SUM_WIDTH numbers."""
        padded = [*numbers, *[0] * (SUM_WIDTH - len(numbers))]
        limbs = mx.nd.array(to_limbs(padded))
        self._server.store.push(_SUM, limbs)
        self._server.store.pull(_SUM, out=limbs)
        return from_limbs(limbs.asnumpy().tolist())[: len(numbers)]

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Average the network's moving statistics over devices, and workers where it can."""
        if not self.collective:
            average_over_devices(arrays)
            return
        for name, parts in arrays.items():
            key = statistic_key(name)
            self._server.store.push(key, list(parts))
            self._server.store.pull(key, out=list(parts))
            for part in parts:
                part[:] = part / (len(parts) * self.workers)

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give the optimizer's state, equal on every worker."""
        return self._updater.states()

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Continue from saved states."""
        self._updater.load_states(states)

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""
        self._server.wait_for_all()

    def close(self) -> None:
        """Leave in good order."""
        self._server.close()
