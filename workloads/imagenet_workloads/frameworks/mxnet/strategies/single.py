"""The strategy of one process: its devices' gradients are added up by a kvstore of one machine."""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_workloads.frameworks.mxnet.optimizers import LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    Compression,
    average_over_devices,
    chosen_compression,
    compress,
    gradients_by_key,
    sum_gradients,
)
from imagenet_workloads.train.options.groups import ClusterOptions


def join(options: ClusterOptions) -> "Single":
    """Make the only worker."""
    return Single(options.kv_store, chosen_compression(options))


class Single:
    """One worker that is alone; implements `Strategy`."""

    rank = 0
    workers = 1
    collective = True
    images_divisor = 1

    def __init__(self, kv_store: str, compression: Compression | None) -> None:
        """Make the kvstore: `local` adds on the CPU, `device` on a GPU, `nccl` through NCCL."""
        self._store = mx.kv.create(kv_store)
        if compression is not None:
            compress(self._store, compression)

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give the numbers back."""
        return list(numbers)

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Take the optimizer; every device has the same values already."""
        self._replicas = replicas
        self._updater = LocalUpdater(optimizer, replicas)
        self._devices = len(replicas.weights(replicas.weight_names[0]))
        if self._devices > 1:
            for key, gradients in gradients_by_key(replicas).items():
                self._store.init(key, gradients[0])

    def update(self, flags: Flags) -> Flags:
        """Add gradients up over devices, move the weights; the flags are its own."""
        if self._devices > 1:
            sum_gradients(self._store, self._replicas)
        self._updater()
        return flags

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Give the numbers back."""
        return list(numbers)

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Average over the devices."""
        average_over_devices(arrays)

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give the optimizer's state."""
        return self._updater.states()

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Continue from saved states."""
        self._updater.load_states(states)

    def wait_for_all(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Nothing to leave."""
