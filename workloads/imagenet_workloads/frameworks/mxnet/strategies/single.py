"""The strategy of one process: a kvstore of one machine sums its devices' gradients."""

from collections.abc import Mapping

import mxnet as mx

from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.frameworks.mxnet.optimizers import LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    Compression,
    chosen_compression,
    gradients_by_key,
    sum_gradients,
)
from imagenet_workloads.train.group import Alone


def join(options: ClusterOptions) -> "Single":
    """Make the only worker."""
    return Single(options.kv_store, chosen_compression(options))


class Single(Alone):
    """The only worker; implements `Strategy`."""

    gradients_ready: float | None = None

    def __init__(self, kv_store: str, compression: Compression | None) -> None:
        """Make the kvstore: `local` adds on the CPU, `device` on a GPU, `nccl` through NCCL."""
        self._store = mx.kv.create(kv_store)
        if compression is not None:
            self._store.set_gradient_compression(compression)

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Take the optimizer; every device has the same values already."""
        self._replicas = replicas
        self._updater = LocalUpdater(optimizer, replicas)
        self._devices = len(replicas.weights(replicas.weight_names[0]))
        if self._devices > 1:
            for key, gradients in gradients_by_key(replicas).items():
                self._store.init(key, gradients[0])

    def update(self, flags: Flags) -> Flags:
        """Sum gradients over devices and update the weights; return this worker's flags."""
        if self._devices > 1:
            sum_gradients(self._store, self._replicas)
        self._updater()
        return flags

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        return self._updater.states()

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        self._updater.load_states(states)
