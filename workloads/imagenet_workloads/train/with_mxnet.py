"""Trains with MXNet: executors in `replicas`, MXNet's optimizers, its kvstores in `strategies`.

Implements what `learner` asks of a framework. Imports MXNet.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.events import Event
from imagenet_workloads.train import networks, optimizer, restore
from imagenet_workloads.train.batch_norm import average_statistics
from imagenet_workloads.train.data.choose import choose
from imagenet_workloads.train.data.interface import Batch, Data
from imagenet_workloads.train.export import export_model
from imagenet_workloads.train.learner import Outputs, Plan, Votes
from imagenet_workloads.train.networks.request import Request
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.saved import save
from imagenet_workloads.train.schedule import ByUpdate
from imagenet_workloads.train.start import Start
from imagenet_workloads.train.strategies.interface import Strategy


class MXNet:
    """MXNet as a framework; implements `Framework`."""

    name = "MXNet"

    def __init__(self, options: Options, join: Callable[[], Strategy]) -> None:
        """Take the command line, and what waits for the others."""
        self._options, self._join = options, join

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
        self._strategy = self._join()
        # Each rank drops out others; the weights that count are drawn by rank 0.
        seed = self._options.cluster.seed + self._strategy.rank
        mx.random.seed(seed)
        np.random.seed(seed)
        return self._strategy

    def open_data(self, together: int, scratch: Path) -> Data:
        """Open RecordIO files, or make images up."""
        strategy = self._strategy
        return choose(self._options, strategy.rank, strategy.workers, together, scratch)

    def wait_to_read(self, batch: Batch) -> None:
        """Wait for MXNet's engine."""
        batch.data.wait_to_read()

    def learner(self, data: Data, begin: Start, plan: Plan) -> "MXNetLearner":
        """Build the network, load or draw its values, and give them to every rank."""
        options, strategy = self._options, self._strategy
        replicas = _replicas(options, data, plan.together)
        saved = restore.read(begin)
        restore.prepare(options, replicas, begin, saved)
        strategy.start(replicas, _optimizer(options, strategy, replicas, plan))
        restore.restore_optimizer(strategy, begin, saved)
        return MXNetLearner(replicas, strategy, _monitor(options, replicas))


class MXNetLearner:
    """A network on this worker's devices; implements `Learner`."""

    def __init__(
        self, replicas: Replicas, strategy: Strategy, monitor: mx.mon.Monitor | None = None
    ) -> None:
        """Take what learns, its way to the others, and MXNet's own monitor of weights, if any."""
        self._replicas, self._strategy, self._monitor = replicas, strategy, monitor

    def train(self, batch: Batch, updates: bool, votes: Votes) -> tuple[Votes, Outputs]:
        """Compute gradients, and exchange them for an update."""
        if self._monitor is not None:
            self._monitor.tic()
        self._replicas.forward_backward(batch.data, batch.label)
        if self._monitor is not None:
            self._monitor.toc_print()
        agreed = Votes()
        if updates:
            agreed = self._strategy.update(votes)
            self._replicas.clear_gradients()
        return agreed, self._outputs(batch)

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


def _replicas(options: Options, data: Data, together: int) -> Replicas:
    model = options.model
    request = Request(
        model.network, model.num_layers, data.class_count, model.image_shape, model.dtype
    )
    contexts = [mx.gpu(number) for number in options.cluster.gpus] or [mx.cpu()]
    return Replicas(
        networks.build(request),
        contexts,
        options.optimizer.batch_size,
        model.image_shape,
        accumulate=together > 1,
    )


def _optimizer(
    options: Options, strategy: Strategy, replicas: Replicas, plan: Plan
) -> mx.optimizer.Optimizer:
    # Where each worker's push is an update of its own, MXNet counts all of them.
    pushes = strategy.workers // strategy.images_divisor
    return optimizer.create(
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
