"""Horovod: every update is made of one batch from each slot, and nobody stands between them.

Gradients are added up among the slots themselves, over Gloo. Each bucket is its own operation, so
that the last layers' travel while the backward pass still works on the first ones. Unlike with
Horovod's DistributedTrainer the optimizer is this package's, on equal sums and equal weights, as
with dist_sync, so its state can be saved and weights never differ.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.optimizers import LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import (
    average_over_devices,
    gradients_by_key,
    sum_gradients,
)
from imagenet_workloads.train.options.groups import ClusterOptions

try:
    import horovod.mxnet as hvd
except ImportError as error:
    raise InputError(
        f"--kv-store horovod: Horovod for MXNet is not installed here ({error}); make "
        "install-horovod makes an environment that has it"
    ) from error


def join(options: ClusterOptions) -> "Horovod":
    """Meet the other slots."""
    return Horovod()


class Horovod:
    """One of several slots in step; implements `Strategy`."""

    collective = True

    def __init__(self) -> None:
        """Meet the others, by the variables HOROVOD_*."""
        hvd.init()
        self.rank, self.workers = int(hvd.rank()), int(hvd.size())
        self.images_divisor = self.workers

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's numbers to every rank."""
        shared = mx.nd.array(numbers, dtype="int64")
        self._broadcast(shared, f"agree:{name}")
        return _whole(shared)

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
        """Give rank 0's values to every device, and keep the optimizer here."""
        self._replicas = replicas
        values = {f"weight:{name}": replicas.weights(name) for name in replicas.weight_names}
        for name in replicas.statistic_names:
            values[f"statistic:{name}"] = replicas.statistics(name)
        for name, parts in values.items():
            self._broadcast(parts[0], name)
            _copy_to_others(parts)
        self._updater = LocalUpdater(optimizer, replicas)
        self._devices = len(replicas.weights(replicas.weight_names[0]))
        if self._devices > 1:
            self._store = mx.kv.create("device")
            for key, gradients in gradients_by_key(replicas).items():
                self._store.init(key, gradients[0])

    def _broadcast(self, array: mx.nd.NDArray, name: str) -> None:
        """Give rank 0's values to every rank, as the sum with nothing from the others.

        Not by `hvd.broadcast_`: Horovod 0.28.1 logs the operation's name after it has handed the
        operation over (`EnqueueTensorBroadcast`), and where that is done by then, MXNet has freed
        the name, which now and then ends the process. `EnqueueTensorAllreduces` logs it before.
        """
        if self.rank != 0:
            array[:] = 0
        hvd.allreduce_(array, op=hvd.Sum, name=name)

    def update(self, flags: Flags) -> Flags:
        """Add gradients up, move the weights; the flags are everybody's."""
        flags_sent = mx.nd.array([flags.save, flags.stop], dtype="int32")
        # Before the gradients: no worker's flags wait for another's backward pass.
        hvd.allreduce_(flags_sent, op=hvd.Sum, name="flags", priority=1)
        if self._devices > 1:
            sum_gradients(self._store, self._replicas)
        for place, (key, gradients) in enumerate(gradients_by_key(self._replicas).items()):
            hvd.allreduce_(gradients[0], op=hvd.Sum, name=key, priority=-place)
            _copy_to_others(gradients)
        self._updater()
        save, stop = _whole(flags_sent)
        return Flags(bool(save), bool(stop))

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Add up over the slots."""
        sums = mx.nd.array(numbers, dtype="int64")
        return _whole(hvd.allreduce_(sums, op=hvd.Sum, name=f"sum:{len(numbers)}"))

    def average(self, arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
        """Average over the devices of all slots; each has as many."""
        average_over_devices(arrays)
        for name, parts in arrays.items():
            hvd.allreduce_(parts[0], op=hvd.Average, name=f"average:{name}")
            _copy_to_others(parts)

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        """Give the optimizer's state, equal on every slot."""
        return self._updater.states()

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Continue from saved states."""
        self._updater.load_states(states)

    def wait_for_all(self) -> None:
        """Return when every slot has come here and has nothing under way."""
        mx.nd.waitall()
        self.add([0])

    def close(self) -> None:
        """Leave in good order."""
        hvd.shutdown()


def _whole(numbers: mx.nd.NDArray) -> list[int]:
    return [int(number) for number in numbers.asnumpy()]


def _copy_to_others(parts: Sequence[mx.nd.NDArray]) -> None:
    first, *others = parts
    for other in others:
        first.copyto(other)
