"""Horovod: one process a device; the processes sum over NCCL, or over Gloo on CPUs.

Each process is a worker. HOROVOD_RANK, HOROVOD_SIZE and others name its rank and the rendezvous.
"""

from collections.abc import Sequence
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow.strategies.mirrored import device_names


class Horovod:
    """One of several synchronised processes; implements `Strategy`."""

    collective = True
    devices = 1

    def __init__(self, device: str) -> None:
        hvd.init()
        self.rank, self.workers = int(hvd.rank()), int(hvd.size())
        self.images_divisor = self.workers
        self.distribution = tf.distribute.OneDeviceStrategy(device)

    def total(self, tensors: Sequence[Any]) -> list[Any]:
        """Sum in one operation; call it in the only replica."""
        return list(hvd.grouped_allreduce([tf.identity(tensor) for tensor in tensors], op=hvd.Sum))

    def broadcast(self, variables: Sequence[Any]) -> None:
        hvd.broadcast_variables(list(variables), root_rank=0)

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        received = hvd.broadcast(tf.constant(list(numbers), tf.int64), root_rank=0, name=name)
        return [int(number) for number in received]

    def add(self, numbers: Sequence[int]) -> list[int]:
        sums = hvd.allreduce(tf.constant(list(numbers), tf.int64), op=hvd.Sum, name="add")
        return [int(number) for number in sums]

    def wait_for_all(self) -> None:
        self.add([0])

    def close(self) -> None:
        """Leave; every other worker must leave too, because it cannot go on without this one."""
        hvd.shutdown()


def join() -> Horovod:
    """Join; return when every process has joined."""
    # Before TensorFlow initializes a GPU. By default it takes all memory, which NCCL needs too.
    for gpu in tf.config.get_visible_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    devices = device_names()
    if len(devices) > 1:
        raise InputError(
            f"--gpus (workers.gpus): Horovod gives each process one GPU, not {len(devices)}; start "
            "as many slots (slotsPerWorker) as there are GPUs"
        )
    return Horovod(devices[0])
