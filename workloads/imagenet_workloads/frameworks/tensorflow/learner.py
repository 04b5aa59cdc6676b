"""A Keras model, its optimizer and a strategy: one training step, one prediction, on all devices.

A step is a function of TensorFlow, traced once: forward pass, gradients of the loss summed over the
images of an update, their sum over all replicas of all workers, optimizer. The workers' flags are
summed beside the gradients. Implements `Learner`. Imports TensorFlow.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from imagenet_spec import events
from imagenet_workloads.data.batches import PADDING
from imagenet_workloads.data.order import seed_of
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.tensorflow.checkpoint_files import WEIGHTS, Snapshot, export
from imagenet_workloads.frameworks.tensorflow.layers import Dropout
from imagenet_workloads.frameworks.tensorflow.optimizers import Optimizer
from imagenet_workloads.frameworks.tensorflow.strategies import Strategy
from imagenet_workloads.frameworks.tensorflow.tables import Tables
from imagenet_workloads.frameworks.tensorflow.weights import (
    Named,
    assign,
    load_arrays,
    local,
    named,
)
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.moving_statistics import MovingStatistics, Rows


class TensorFlowLearner:
    """A network on this worker's devices."""

    compiled: bool | None = None

    _ready: float | None = None

    def __init__(
        self,
        model: Any,
        optimizer: Optimizer,
        strategy: Strategy,
        plan: UpdatePlan,
        tables: Tables | None = None,
        seed: int = 0,
        smoothing: float = 0.0,
    ) -> None:
        """Take the model and optimizer of the strategy's scope, and rank 0's tables.

        Of each label all classes get the part `smoothing` alike (Szegedy et al. 2016).
        """
        self.model, self.optimizer, self._strategy = model, optimizer, strategy
        self.weights, self.statistics = named(model)
        self._schedule, self._updates = plan.schedule, plan.updates_done
        self._images = plan.images_per_update
        self._tables, self._smoothing = tables, smoothing
        # Of each replica's earlier gradients.
        self._sums: list[Any] = []
        if plan.accumulation_steps > 1:
            with strategy.distribution.scope():
                self._sums = [
                    tf.Variable(
                        tf.zeros(one.variable.shape),
                        trainable=False,
                        synchronization=tf.VariableSynchronization.ON_READ,
                        aggregation=tf.VariableAggregation.SUM,
                    )
                    for one in self.weights
                ]

        def everywhere(step: Callable[..., Any]) -> Any:
            # It has no Python branch or loop over tensors, so AutoGraph has nothing to translate.
            return tf.function(
                lambda *given: strategy.distribution.run(step, given), autograph=False
            )

        self._learn, self._keep = everywhere(self._learn_here), everywhere(self._keep_here)
        self._classify, self._gather = (
            everywhere(self._classify_here),
            everywhere(self._gather_here),
        )
        self._seed, self._steps = seed, 0
        # On a GPU the operations before the exchange are only queued when the program notes a time.
        self._notes_ready = strategy.workers > 1 and not tf.config.list_logical_devices("GPU")
        self._dropouts = [layer for layer in model.layers if isinstance(layer, Dropout)]
        self.moving_statistics = MovingStatistics(
            self._read_statistics, self._write_statistics, self._gathered, strategy
        )

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        """Compute gradients; with an update, sum them over all workers and move the weights."""
        self.moving_statistics.restore_own()
        # From the step's number, so that a resumed training draws the same.
        place = self._steps * self._strategy.workers + self._strategy.rank
        for number, layer in enumerate(self._dropouts):
            layer.seed.value.assign([seed_of(self._seed, self._updates, place), number])
        self._steps += 1
        self._ready = None
        images, labels = self._shares(batch)
        if not updates:
            return Flags(), self._outputs(batch, self._keep(images, labels))
        self.optimizer.learning_rate = self._schedule(self._updates)
        self._updates, self._steps = self._updates + 1, 0
        flags_sent = tf.constant(flags.numbers(), tf.float32)
        outputs, counted, *ready = self._learn(images, labels, flags_sent)
        if ready:
            self._ready = max(float(at) for at in self._local(ready[0]))
        return Flags.of(self._local(counted)[0].numpy()), self._outputs(batch, outputs)

    def gradients_ready(self) -> float | None:
        """Return when the last device's were; None on GPUs and without other workers."""
        return self._ready

    def settle(self) -> None:
        """Do nothing: the reader's threads work beside the step."""

    def predict(self, batch: Batch) -> Outputs:
        images, _ = self._shares(batch)
        return self._outputs(batch, self._classify(images))

    def average_statistics(self) -> None:
        self.moving_statistics.average()

    def snapshot(self) -> Snapshot:
        variables = [*self.weights, *self.statistics]
        return Snapshot.of(variables, self.optimizer, self.moving_statistics.of_all)

    def load(self, folder: Path) -> None:
        with self._strategy.distribution.scope():
            assign([*self.weights, *self.statistics], load_arrays(folder / WEIGHTS))

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        return export(prefix, self.model, epoch)

    def note(self, event: events.Event) -> None:
        if self._tables is not None:
            self._tables.write(event, self._penalty)

    def _read_statistics(self) -> Rows:
        rows = [
            [copies[device].numpy().ravel() for copies in map(_copies, self.statistics)]
            for device in range(self._strategy.devices)
        ]
        return np.array([np.concatenate([*parts, []]) for parts in rows], np.float32)

    def _write_statistics(self, rows: Rows) -> None:
        begin = 0
        for copies in map(_copies, self.statistics):
            end = begin + math.prod(copies[0].shape)
            for copy, row in zip(copies, rows, strict=True):
                copy.assign(row[begin:end].reshape(copy.shape))
            begin = end

    def _gathered(self, own: Rows) -> Rows:
        found: Rows = self._local(self._gather(tf.constant(own)))[0].numpy()
        return found

    def _penalty(self) -> float:
        """Return the term that weight decay adds to the minimised loss."""
        decays = zip(self.weights, self.optimizer.decays, strict=True)
        return sum(
            decay * float(tf.nn.l2_loss(local(one.variable))) for one, decay in decays if decay
        )

    def _shares(self, batch: Batch) -> tuple[Any, Any]:
        """Split a batch into one part for each device of this worker."""
        devices = self._strategy.devices
        if devices == 1:
            return batch.data, batch.label
        edges = np.linspace(0, len(batch.label), devices + 1).astype(int)

        def piece(whole: Any) -> Any:
            def of_replica(context: Any) -> Any:
                place = context.replica_id_in_sync_group % devices
                return whole[edges[place] : edges[place + 1]]

            return self._strategy.distribution.experimental_distribute_values_from_function(
                of_replica
            )

        return piece(batch.data), piece(batch.label)

    def _outputs(self, batch: Batch, probabilities: Any) -> Outputs:
        whole = np.concatenate([part.numpy() for part in self._local(probabilities)])
        labels = batch.label.numpy()[: batch.images].astype(np.float32)
        return Outputs.of(whole[: batch.images], labels)

    def _local(self, values: Any) -> Any:
        return self._strategy.distribution.experimental_local_results(values)

    def _learn_here(self, images: Any, labels: Any, flags_sent: Any) -> tuple[Any, ...]:
        gradients, probabilities = self._gradients(images, labels)
        if self._sums:
            gradients = [part + kept for part, kept in zip(gradients, self._sums, strict=True)]
        # When this replica has computed its gradients, if that is noted.
        ready = []
        if self._notes_ready:
            with tf.control_dependencies(gradients):
                ready.append(tf.numpy_function(time.monotonic, [], tf.float64))
        with tf.control_dependencies(ready):
            *totals, counted = self._strategy.total([*gradients, flags_sent])
        variables = [one.variable for one in self.weights]
        self.optimizer.apply_gradients(
            list(zip(totals, variables, strict=True)), skip_gradients_aggregation=True
        )
        for kept in self._sums:
            kept.assign(tf.zeros_like(kept))
        return probabilities, counted, *ready

    def _keep_here(self, images: Any, labels: Any) -> Any:
        gradients, probabilities = self._gradients(images, labels)
        for part, kept in zip(gradients, self._sums, strict=True):
            kept.assign_add(part)
        return probabilities

    def _classify_here(self, images: Any) -> Any:
        return tf.nn.softmax(self.model(images, training=False))

    def _gather_here(self, own: Any) -> Any:
        """Sum rows that are zero but on one replica."""
        strategy = self._strategy
        number = tf.distribute.get_replica_context().replica_id_in_sync_group % strategy.devices
        place = strategy.rank * strategy.devices + number
        is_own = tf.range(strategy.workers * strategy.devices) == place
        return strategy.total([tf.where(is_own[:, None], own[number][None], 0.0)])[0]

    def _gradients(self, images: Any, labels: Any) -> tuple[list[Any], Any]:
        """Return this replica's part of the mean gradient over all images of an update."""
        real = labels != PADDING
        wanted = tf.where(real, tf.cast(labels, tf.int32), 0)
        with tf.GradientTape() as tape:
            scores = self.model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, scores)
            if self._smoothing:
                of_all = -tf.reduce_mean(tf.nn.log_softmax(scores), axis=1)
                losses = (1 - self._smoothing) * losses + self._smoothing * of_all
            loss = tf.reduce_sum(tf.where(real, losses, 0)) / self._images
        gradients = tape.gradient(loss, [one.variable for one in self.weights])
        return [tf.convert_to_tensor(part) for part in gradients], tf.nn.softmax(scores)


def _copies(one: Named) -> Sequence[Any]:
    """List the copies of a variable on this worker's devices."""
    variable = one.variable
    is_distributed = isinstance(variable, tf.distribute.DistributedValues)
    return variable.values if is_distributed else (variable,)
