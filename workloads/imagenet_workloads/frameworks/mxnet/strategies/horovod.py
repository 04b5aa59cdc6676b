"""Horovod: each update uses one batch from every slot, without a server.

The slots sum gradients over NCCL, or over Gloo on CPUs. Each bucket is a separate operation:
gradients of the last layers are sent while the backward pass computes those of the first. In place
of Horovod's DistributedTrainer, the optimizer of this package runs on equal sums and equal weights,
as with dist_sync. So its state can be saved and weights never differ.
"""

from collections.abc import Mapping, Sequence

import mxnet as mx

from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.optimizers import LocalUpdater
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import gradients_by_key, sum_gradients
from imagenet_workloads.train.moving_statistics import Rows, padded

try:
    import horovod.mxnet as hvd
except ImportError as error:
    raise InputError(
        f"--kv-store horovod (strategy: horovod): Horovod for MXNet is not installed ({error}); "
        "make install-horovod makes an environment that has it"
    ) from error


def join(options: ClusterOptions) -> "Horovod":
    """Meet the other slots."""
    return Horovod()


class Horovod:
    """One of several slots in step; implements `Strategy`."""

    collective = True

    def __init__(self) -> None:
        hvd.init()
        self.rank, self.workers = int(hvd.rank()), int(hvd.size())
        self.images_divisor = self.workers
        self.gradients_ready: float | None = None

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        shared = mx.nd.array(numbers, dtype="int64")
        self._broadcast(shared, f"agree:{name}")
        return _whole(shared)

    def start(self, replicas: Replicas, optimizer: mx.optimizer.Optimizer) -> None:
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
        """Broadcast rank 0's values as a sum with zeros from the other ranks.

        `hvd.broadcast_` is not used, because it can crash. Horovod 0.28.1 logs the operation's name
        after it has enqueued the operation (`EnqueueTensorBroadcast`). If the operation has ended
        by then, MXNet has freed the name. `EnqueueTensorAllreduces` logs it before.
        """
        if self.rank != 0:
            array[:] = 0
        hvd.allreduce_(array, op=hvd.Sum, name=name)

    def update(self, flags: Flags) -> Flags:
        """Sum the gradients and update the weights; return the flags of all slots."""
        backward_is_over = self._replicas.gradients_marker()
        flags_sent = mx.nd.array(flags.numbers(), dtype="int32")
        # Before the gradients: no worker's flags wait for another's backward pass.
        hvd.allreduce_(flags_sent, op=hvd.Sum, name="flags", priority=1)
        if self._devices > 1:
            sum_gradients(self._store, self._replicas)
        for place, (key, gradients) in enumerate(gradients_by_key(self._replicas).items()):
            hvd.allreduce_(gradients[0], op=hvd.Sum, name=key, priority=-place)
            _copy_to_others(gradients)
        self._updater()
        # Before the flags: they wait until each slot has its data.
        self.gradients_ready = backward_is_over()
        return Flags.of(_whole(flags_sent))

    def add(self, numbers: Sequence[int]) -> list[int]:
        sums = mx.nd.array(numbers, dtype="int64")
        return _whole(hvd.allreduce_(sums, op=hvd.Sum, name=f"sum:{len(numbers)}"))

    def gather(self, own: Rows) -> Rows:
        """Sum rows that are zero but on one slot; each slot has the same number of devices."""
        sent = mx.nd.array(padded(own, self.rank, self.workers))
        found: Rows = hvd.allreduce_(sent, op=hvd.Sum, name="statistics").asnumpy()
        return found

    def states(self) -> dict[str, mx.nd.NDArray] | None:
        return self._updater.states()

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        self._updater.load_states(states)

    def wait_for_all(self) -> None:
        mx.nd.waitall()
        self.add([0])

    def close(self) -> None:
        hvd.shutdown()


def _whole(numbers: mx.nd.NDArray) -> list[int]:
    return [int(number) for number in numbers.asnumpy()]


def _copy_to_others(parts: Sequence[mx.nd.NDArray]) -> None:
    first, *others = parts
    for other in others:
        first.copyto(other)
