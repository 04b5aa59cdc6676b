"""Trains with MXNet: executors in `replicas`, MXNet's optimizers, its kvstores in `strategies`.

Implements the protocols of `train.framework`. Imports MXNet.
"""

import ctypes
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_spec.events import Event
from imagenet_spec.frameworks.mxnet import IN_STEP, MXNET
from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import Identity
from imagenet_workloads.data.order import seed_of
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import checkpoint_files, networks, optimizers
from imagenet_workloads.frameworks.mxnet.checkpoint_files import Snapshot, export_model
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Strategy, join
from imagenet_workloads.rendezvous import Rendezvous
from imagenet_workloads.train.devices import Capability, require_code
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.moving_statistics import MovingStatistics
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.resume import ResumePoint

# Convolutions without atomic additions, chosen without measuring; one buffer for each gradient.
DETERMINISTIC = {
    "MXNET_ENFORCE_DETERMINISM": "1",
    "MXNET_CUDNN_AUTOTUNE_DEFAULT": "0",
    "HOROVOD_FUSION_THRESHOLD": "0",
}


def check_order_of_sums(workers: int) -> None:
    """Raise InputError if servers sum over more than two workers, in the order of arrival."""
    if workers > 2:
        raise InputError(
            f"--deterministic (training.deterministic): servers sum the gradients of {workers} "
            "workers in the order of arrival; use 2 workers, or another strategy"
        )


def create(options: Options, rendezvous: Rendezvous, folder: Path, identity: Identity) -> "MXNet":
    """Make the framework; `folder` is the attempt's, and `identity` the training's."""
    return MXNet(options, rendezvous)


class MXNet:
    """MXNet as a framework; implements `Framework`."""

    name = "MXNet"

    def __init__(self, options: Options, rendezvous: Rendezvous) -> None:
        self._options, self._rendezvous = options, rendezvous

    def check(self) -> None:
        seen = mx.context.num_gpus()
        missing = [number for number in self._options.cluster.gpus if number >= seen]
        if missing:
            raise InputError(
                f"--gpus (workers.gpus): there is no GPU {missing[0]}, MXNet sees {seen}; leave it "
                "out to train on the CPU"
            )
        require_gpus(self._options.cluster.gpus)
        if self._options.model.dtype == "float16" and not self._options.cluster.gpus:
            raise InputError(
                "--dtype (precision): MXNet computes float16 on GPUs only; write float32, or "
                "--gpus (workers.gpus)"
            )
        if self._options.cluster.deterministic:
            os.environ |= DETERMINISTIC

    def join(self) -> Strategy:
        cluster = self._options.cluster
        with self._rendezvous.joining(cluster.join_timeout):
            self._strategy = join(cluster)
        if cluster.deterministic and cluster.kv_store in IN_STEP:
            check_order_of_sums(self._strategy.workers)
        # Dropout differs by rank; rank 0 draws the initial weights for all.
        seed = cluster.seed + self._strategy.rank
        mx.random.seed(seed)
        np.random.seed(seed)
        return self._strategy

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        strategy = self._strategy
        return choose(self._options, strategy.rank, strategy.workers, accumulation_steps, scratch)

    def wait_to_read(self, batch: Batch) -> None:
        batch.data.wait_to_read()

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> "MXNetLearner":
        options, strategy = self._options, self._strategy
        replicas = _replicas(options, data, plan.accumulation_steps)
        loaded = checkpoint_files.read(resume_point)
        checkpoint_files.prepare(options, replicas, resume_point, loaded)
        # If each worker's push is a separate update, MXNet counts all of them.
        pushes = strategy.workers // strategy.images_divisor
        optimizer = optimizers.create(
            options.optimizer,
            replicas,
            ByUpdate(plan.schedule, pushes),
            plan.images_per_update,
            plan.updates_done * pushes,
        )
        strategy.start(replicas, optimizer)
        checkpoint_files.restore_optimizer(strategy, resume_point, loaded)
        # A step without random numbers needs no seed, which would take 2 ms.
        nodes = json.loads(replicas.symbol.tojson())["nodes"]
        draws = any(node["op"] == "Dropout" for node in nodes)
        draws = draws or options.optimizer.optimizer.lower() == "sgld"
        seed = options.cluster.seed if draws else None
        monitor = None
        if options.output.monitor:
            monitor = mx.mon.Monitor(options.output.monitor, pattern=".*")
            replicas.watch(monitor)
        learner = MXNetLearner(replicas, strategy, plan.updates_done, seed, monitor)
        if resume_point.folder is not None and resume_point.continues:
            learner.statistics.load(resume_point.folder)
        return learner


# The place of the optimizer's random numbers; those of the network are at 0 and above.
_UPDATE = -1


class MXNetLearner:
    """A network on this worker's devices; implements `Learner`."""

    compiled: bool | None = None

    def __init__(
        self,
        replicas: Replicas,
        strategy: Strategy,
        updates_done: int = 0,
        seed: int | None = None,
        monitor: mx.mon.Monitor | None = None,
    ) -> None:
        """Take what learns, after so many updates of the weights.

        Without a `seed`, neither network nor optimizer draws random numbers.
        """
        self._replicas, self._strategy, self._monitor = replicas, strategy, monitor
        self._updates, self._steps, self._seed = updates_done, 0, seed
        self._has_updated = False
        self.statistics = MovingStatistics(
            replicas.read_statistics, replicas.write_statistics, strategy.gather, strategy
        )

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        """Compute gradients; with an update, exchange them and move the weights."""
        self.statistics.restore_own()
        # From the step's number, so that a resumed training draws the same.
        self._draw_from(self._steps * self._strategy.workers + self._strategy.rank)
        self._steps += 1
        if self._monitor is not None:
            self._monitor.tic()
        self._replicas.forward_backward(batch.data, batch.label)
        if self._monitor is not None:
            self._monitor.toc_print()
        flags_of_all = Flags()
        self._has_updated = updates
        if updates:
            # The optimizer's noise is the same on every worker, as the weights are.
            self._draw_from(_UPDATE)
            flags_of_all = self._strategy.update(flags)
            self._updates, self._steps = self._updates + 1, 0
            self._replicas.clear_gradients()
        return flags_of_all, self._outputs(batch)

    def gradients_ready(self) -> float | None:
        return self._strategy.gradients_ready if self._has_updated else None

    def settle(self) -> None:
        """Wait for the backward pass and the update if the CPU computes them.

        ImageRecordIter sends every batch through the queue of MXNet's one CPU worker, behind the
        operations of the current step. Each GPU has its own queue.
        """
        if self._replicas.on_cpu:
            mx.nd.waitall()

    def predict(self, batch: Batch) -> Outputs:
        self._replicas.forward(batch.data)
        return self._outputs(batch)

    def average_statistics(self) -> None:
        """Average the moving statistics of BatchNorm until the next step.

        The variance between the workers' means is ignored: shards are shuffled, so each batch is
        like a draw from the whole dataset.
        """
        self.statistics.average()
        # If this worker leaves next, its pushes must be complete: others wait for them.
        mx.nd.waitall()

    def snapshot(self) -> Snapshot:
        return Snapshot.of(self._replicas, self._strategy, self.statistics.of_all)

    def load(self, folder: Path) -> None:
        self._replicas.load(checkpoint_files.load(folder).parameters)

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        return export_model(prefix, self._replicas, epoch)

    def note(self, event: Event) -> None:
        """Add nothing to the attempt's log."""

    def _draw_from(self, place: int) -> None:
        """Start MXNet's random numbers at a place of the current update."""
        if self._seed is not None:
            mx.random.seed(seed_of(self._seed, self._updates, place))

    def _outputs(self, batch: Batch) -> Outputs:
        labels = batch.label.asnumpy()[: batch.images]
        return Outputs.of(self._replicas.probabilities()[: batch.images], labels)


def _replicas(options: Options, data: Data, accumulation_steps: int) -> Replicas:
    model = options.model
    request = NetworkRequest(
        model.network,
        model.num_layers,
        data.class_count,
        model.image_shape,
        model.dtype,
        options.optimizer.label_smoothing,
    )
    contexts = [mx.gpu(number) for number in options.cluster.gpus] or [mx.cpu()]
    return Replicas(
        networks.build(request),
        contexts,
        options.optimizer.batch_size,
        model.image_shape,
        accumulate=accumulation_steps > 1,
    )


CODE = tuple(f"sm_{major}{minor}" for major, minor in MXNET.gpu_code.machine_code)

# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
_MAJOR, _MINOR = 75, 76
_NAME_BYTES = 256


def require_gpus(numbers: Iterable[int]) -> None:
    """Refuse GPUs that MXNet 1.9.1 has no code for, before its first kernel fails.

    MXNet names neither its code nor a GPU's compute capability. The code is that of the wheel for
    CUDA 11.2, as cuobjdump lists it (docs/images.md); the driver tells the capability. A GPU that
    it does not describe passes. InputError: MXNet has no code for one.
    """
    for number in numbers:
        if (found := describe(number)) is not None:
            require_code(
                "MXNet 1.9.1",
                *found,
                CODE,
                older="use a newer GPU",
                newer="write --framework PyTorch (framework: PyTorch)",
            )


def describe(number: int) -> tuple[str, Capability] | None:
    """Return name and compute capability of a GPU by NVIDIA's driver; None if there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = (ctypes.c_int() for _ in range(3))
    name = ctypes.create_string_buffer(_NAME_BYTES)
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDeviceGetName(name, _NAME_BYTES, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    )
    if failed:
        return None
    return name.value.decode(errors="replace"), (major.value, minor.value)
