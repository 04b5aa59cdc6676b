"""Trains with MXNet: executors in `replicas`, MXNet's optimizers, its kvstores in `strategies`.

Implements the protocols of `train.framework`. Imports MXNet.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint.manifest import Identity
from imagenet_workloads.data.sharding import seed_of
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import checkpoint_files, networks, optimizers
from imagenet_workloads.frameworks.mxnet.checkpoint_files import Snapshot, export_model
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.frameworks.mxnet.gpus import require_gpus
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Strategy, join
from imagenet_workloads.rendezvous import Rendezvous
from imagenet_workloads.telemetry.events import Event
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.moving_statistics import DeviceStatistics, MovingStatistics
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.resume import ResumePoint

# Convolutions without atomic additions, chosen without measuring; one buffer for each gradient.
DETERMINISTIC = {
    "MXNET_ENFORCE_DETERMINISM": "1",
    "MXNET_CUDNN_AUTOTUNE_DEFAULT": "0",
    "HOROVOD_FUSION_THRESHOLD": "0",
}
SUMMED_ON_ARRIVAL = ("dist_sync", "dist_device_sync")


def check_order_of_sums(workers: int) -> None:
    """Check that a sum over the workers has the same bits in any order.

    Raises:
        InputError: servers sum in the order of arrival, and there are more than two workers.
    """
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
        """Take the command line, and the other members."""
        self._options, self._rendezvous = options, rendezvous

    def check(self) -> None:
        """Check that the GPUs are there, and that MXNet has code for them and for the precision."""
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
        """Make the strategy; wait for the other members."""
        cluster = self._options.cluster
        with self._rendezvous.joining(cluster.join_timeout):
            self._strategy = join(cluster)
        if cluster.deterministic and cluster.kv_store in SUMMED_ON_ARRIVAL:
            check_order_of_sums(self._strategy.workers)
        # Dropout differs by rank; rank 0 draws the initial weights for all.
        seed = cluster.seed + self._strategy.rank
        mx.random.seed(seed)
        np.random.seed(seed)
        return self._strategy

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        """Open RecordIO files, or make synthetic images."""
        strategy = self._strategy
        return choose(self._options, strategy.rank, strategy.workers, accumulation_steps, scratch)

    def wait_to_read(self, batch: Batch) -> None:
        """Wait for MXNet's engine."""
        batch.data.wait_to_read()

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> "MXNetLearner":
        """Build the network, load or draw its values, and broadcast them."""
        options, strategy = self._options, self._strategy
        replicas = _replicas(options, data, plan.accumulation_steps)
        loaded = checkpoint_files.read(resume_point)
        checkpoint_files.prepare(options, replicas, resume_point, loaded)
        strategy.start(replicas, _optimizer(options, strategy, replicas, plan))
        checkpoint_files.restore_optimizer(strategy, resume_point, loaded)
        seed = options.cluster.seed if _draws(options, replicas) else None
        monitor = _monitor(options, replicas)
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
        """Take what learns.

        Args:
            replicas: the network on each device.
            strategy: of the exchange.
            updates_done: of the weights so far.
            seed: of random numbers; None if neither network nor optimizer draws any.
            monitor: MXNet's own of weights, if any.
        """
        self._replicas, self._strategy, self._monitor = replicas, strategy, monitor
        self._updates, self._steps, self._seed = updates_done, 0, seed
        self._has_updated = False
        self.statistics = MovingStatistics(
            DeviceStatistics(replicas.read_statistics, replicas.write_statistics, strategy.gather),
            strategy,
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
        """Return when the backward pass of an update was over."""
        return self._strategy.gradients_ready if self._has_updated else None

    def settle(self) -> None:
        """Wait for the backward pass and the update if the CPU computes them.

        ImageRecordIter sends every batch through the queue of MXNet's one CPU worker, behind the
        operations of the current step. Each GPU has its own queue.
        """
        if self._replicas.on_cpu:
            mx.nd.waitall()

    def predict(self, batch: Batch) -> Outputs:
        """Classify a batch."""
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
        """Copy the symbol, weights, statistics and the optimizer's state."""
        return Snapshot.of(self._replicas, self._strategy, self.statistics.of_all)

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        """Write PREFIX-symbol.json and PREFIX-NNNN.params."""
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


def _optimizer(
    options: Options, strategy: Strategy, replicas: Replicas, plan: UpdatePlan
) -> mx.optimizer.Optimizer:
    # If each worker's push is a separate update, MXNet counts all of them.
    pushes = strategy.workers // strategy.images_divisor
    return optimizers.create(
        options.optimizer,
        replicas,
        ByUpdate(plan.schedule, pushes),
        plan.images_per_update,
        plan.updates_done * pushes,
    )


def _draws(options: Options, replicas: Replicas) -> bool:
    """Whether a step draws random numbers. Seeding takes 2 ms, so it is left out otherwise."""
    drops = any(node["op"] == "Dropout" for node in json.loads(replicas.symbol.tojson())["nodes"])
    return drops or options.optimizer.optimizer.lower() == "sgld"


def _monitor(options: Options, replicas: Replicas) -> mx.mon.Monitor | None:
    if not options.output.monitor:
        return None
    monitor = mx.mon.Monitor(options.output.monitor, pattern=".*")
    replicas.watch(monitor)
    return monitor
