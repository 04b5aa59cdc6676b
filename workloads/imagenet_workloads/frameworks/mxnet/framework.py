"""Trains with MXNet: executors in `replicas`, MXNet's optimizers, its kvstores in `strategies`.

Implements what `train.framework` asks of a framework. Imports MXNet.
"""

from collections.abc import Mapping
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import checkpoint_files, networks, optimizers
from imagenet_workloads.frameworks.mxnet.checkpoint_files import export_model, save
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Strategy, join
from imagenet_workloads.rendezvous import Rendezvous
from imagenet_workloads.telemetry.events import Event
from imagenet_workloads.train.data import Batch, Data
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.resume import ResumePoint


def create(options: Options, rendezvous: Rendezvous, folder: Path) -> "MXNet":
    """Make the framework; `folder` is the attempt's."""
    return MXNet(options, rendezvous)


class MXNet:
    """MXNet as a framework; implements `Framework`."""

    name = "MXNet"

    def __init__(self, options: Options, rendezvous: Rendezvous) -> None:
        """Take the command line, and the other members."""
        self._options, self._rendezvous = options, rendezvous

    def check(self) -> None:
        """Check that the GPUs are there."""
        seen = mx.context.num_gpus()
        missing = [number for number in self._options.cluster.gpus if number >= seen]
        if missing:
            raise InputError(
                f"--gpus: there is no GPU {missing[0]}, MXNet sees {seen}; leave the option out to "
                "train on the CPU"
            )

    def join(self) -> Strategy:
        """Make the strategy, which means to wait for the others."""
        cluster = self._options.cluster
        with self._rendezvous.joining(cluster.join_timeout):
            self._strategy = join(cluster)
        # Each rank drops out others; the weights that count are drawn by rank 0.
        seed = cluster.seed + self._strategy.rank
        mx.random.seed(seed)
        np.random.seed(seed)
        return self._strategy

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        """Open RecordIO files, or make images up."""
        strategy = self._strategy
        return choose(self._options, strategy.rank, strategy.workers, accumulation_steps, scratch)

    def wait_to_read(self, batch: Batch) -> None:
        """Wait for MXNet's engine."""
        batch.data.wait_to_read()

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> "MXNetLearner":
        """Build the network, load or draw its values, and give them to every rank."""
        options, strategy = self._options, self._strategy
        replicas = _replicas(options, data, plan.accumulation_steps)
        loaded = checkpoint_files.read(resume_point)
        checkpoint_files.prepare(options, replicas, resume_point, loaded)
        strategy.start(replicas, _optimizer(options, strategy, replicas, plan))
        checkpoint_files.restore_optimizer(strategy, resume_point, loaded)
        return MXNetLearner(replicas, strategy, _monitor(options, replicas))


class MXNetLearner:
    """A network on this worker's devices; implements `Learner`."""

    def __init__(
        self, replicas: Replicas, strategy: Strategy, monitor: mx.mon.Monitor | None = None
    ) -> None:
        """Take what learns, its way to the others, and MXNet's own monitor of weights, if any."""
        self._replicas, self._strategy, self._monitor = replicas, strategy, monitor

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        """Compute gradients, and exchange them for an update."""
        if self._monitor is not None:
            self._monitor.tic()
        self._replicas.forward_backward(batch.data, batch.label)
        if self._monitor is not None:
            self._monitor.toc_print()
        flags_of_all = Flags()
        if updates:
            flags_of_all = self._strategy.update(flags)
            self._replicas.clear_gradients()
        return flags_of_all, self._outputs(batch)

    def settle(self) -> None:
        """Wait for the backward pass and the update, where they are the CPU's work.

        ImageRecordIter sends every batch through the queue of MXNet's one CPU worker, in which what
        a step has begun stands before it. GPUs have queues of their own.
        """
        if self._replicas.on_cpu:
            mx.nd.waitall()

    def predict(self, batch: Batch) -> Outputs:
        """Classify a batch."""
        self._replicas.forward(batch.data)
        return self._outputs(batch)

    def average_statistics(self) -> None:
        """Average BatchNorm's."""
        average_statistics(self._replicas, self._strategy)

    def save(self, folder: Path) -> None:
        """Write the symbol, weights, statistics and the optimizer's state."""
        save(folder, self._replicas, self._strategy)

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        """Write PREFIX-symbol.json and PREFIX-NNNN.params."""
        return export_model(prefix, self._replicas, epoch)

    def note(self, event: Event) -> None:
        """Nothing to add to the attempt's log."""

    def _outputs(self, batch: Batch) -> Outputs:
        labels = batch.label.asnumpy()[: batch.images]
        return Outputs(self._replicas.probabilities()[: batch.images], labels)


def _replicas(options: Options, data: Data, accumulation_steps: int) -> Replicas:
    model = options.model
    request = NetworkRequest(
        model.network, model.num_layers, data.class_count, model.image_shape, model.dtype
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
    # Where each worker's push is an update of its own, MXNet counts all of them.
    pushes = strategy.workers // strategy.images_divisor
    return optimizers.create(
        options.optimizer,
        replicas,
        ByUpdate(plan.schedule, pushes),
        plan.images_per_update,
        plan.updates_done * pushes,
    )


def _monitor(options: Options, replicas: Replicas) -> mx.mon.Monitor | None:
    if not options.output.monitor:
        return None
    monitor = mx.mon.Monitor(options.output.monitor, pattern=".*")
    replicas.watch(monitor)
    return monitor


def average_statistics(replicas: Replicas, strategy: Strategy) -> None:
    """Set every moving mean and variance to its average over all devices of all workers.

    Where workers cannot add up numbers, rank 0 evaluates and saves alone, from its own devices.

    The variance between the workers' means is left out, as if each batch were drawn from the whole
    dataset, which is what the shuffled shards give.
    """
    # MXNet 1.9.1 moves the statistics in the backward pass without telling its engine: whoever read
    # them before that has ended would get those of the step before.
    mx.nd.waitall()
    strategy.average({name: replicas.statistics(name) for name in replicas.statistic_names})
    # Whoever leaves after this must not take along a push that others wait for.
    mx.nd.waitall()
