"""A Keras model, its optimizer and a strategy: one training step, one prediction, on all devices.

A step is a function of TensorFlow's, traced once: forward, gradients of the summed loss over the
images of an update, their sum over all replicas of all workers, the optimizer. The workers' flags
are added up beside the gradients. Implements `Learner`. Imports TensorFlow.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from imagenet_workloads.frameworks.tensorflow.checkpoint_files import export, save
from imagenet_workloads.frameworks.tensorflow.optimizers import Optimizer
from imagenet_workloads.frameworks.tensorflow.strategies import Strategy
from imagenet_workloads.frameworks.tensorflow.tables import Tables
from imagenet_workloads.frameworks.tensorflow.weights import local, named
from imagenet_workloads.telemetry import events
from imagenet_workloads.train.data import Batch
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags


class TensorFlowLearner:
    """A network on this worker's devices."""

    def __init__(
        self,
        model: Any,
        optimizer: Optimizer,
        strategy: Strategy,
        plan: UpdatePlan,
        tables: Tables | None = None,
    ) -> None:
        """Take what was made in the strategy's scope, and where rank 0's tables of figures go."""
        self.model, self.optimizer, self._strategy = model, optimizer, strategy
        self.weights, self.statistics = named(model)
        self._schedule, self._updates = plan.schedule, plan.updates_done
        self._images = plan.images_per_update
        self._tables = tables
        self._sums = self._make_sums() if plan.accumulation_steps > 1 else []
        # They have no branch or loop of Python's over tensors: nothing to translate.
        self._learn = tf.function(self._learn_everywhere, autograph=False)
        self._keep = tf.function(self._keep_everywhere, autograph=False)
        self._classify = tf.function(self._classify_everywhere, autograph=False)
        self._average = tf.function(self._average_everywhere, autograph=False)

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        """Compute gradients; with an update, sum them over all workers and move the weights."""
        images, labels = self._shares(batch)
        if not updates:
            return Flags(), self._outputs(batch, self._keep(images, labels))
        self.optimizer.learning_rate = self._schedule(self._updates)
        self._updates += 1
        flags_sent = tf.constant([flags.save, flags.stop], tf.float32)
        outputs, counted = self._learn(images, labels, flags_sent)
        save_now, stop = self._local(counted)[0].numpy() > 0
        return Flags(bool(save_now), bool(stop)), self._outputs(batch, outputs)

    def settle(self) -> None:
        """Nothing to wait for: `tf.data` reads beside the step, in threads of its own."""

    def predict(self, batch: Batch) -> Outputs:
        """Classify a batch."""
        images, _ = self._shares(batch)
        return self._outputs(batch, self._classify(images))

    def average_statistics(self) -> None:
        """Set BatchNorm's to their averages over all replicas of all workers."""
        if self.statistics:
            self._average()

    def save(self, folder: Path) -> None:
        """Write weights, statistics and the optimizer's arrays."""
        save(folder, self.weights, self.statistics, self.optimizer.states())

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        """Write PREFIX/, a SavedModel, and PREFIX-NNNN.npz, its values by MXNet's names."""
        return export(prefix, self.model, epoch)

    def note(self, event: events.Event) -> None:
        """Put an event into rank 0's tables."""
        if self._tables is not None:
            self._tables.write(event, self._penalty)

    def _penalty(self) -> float:
        """Give what weight decay adds to the loss that is minimised."""
        decays = zip(self.weights, self.optimizer.decays, strict=True)
        return sum(
            decay * float(tf.nn.l2_loss(local(one.variable))) for one, decay in decays if decay
        )

    def _make_sums(self) -> list[Any]:
        """Make room for gradients of earlier batches, for each replica its own."""
        with self._strategy.distribution.scope():
            return [
                tf.Variable(
                    tf.zeros(one.variable.shape),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for one in self.weights
            ]

    def _shares(self, batch: Batch) -> tuple[Any, Any]:
        """Cut a batch into one piece for each device of this worker."""
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
        return Outputs(whole[: batch.images], labels)

    def _local(self, values: Any) -> Any:
        return self._strategy.distribution.experimental_local_results(values)

    def _learn_everywhere(self, images: Any, labels: Any, flags_sent: Any) -> Any:
        return self._strategy.distribution.run(self._learn_here, (images, labels, flags_sent))

    def _keep_everywhere(self, images: Any, labels: Any) -> Any:
        return self._strategy.distribution.run(self._keep_here, (images, labels))

    def _classify_everywhere(self, images: Any) -> Any:
        return self._strategy.distribution.run(self._classify_here, (images,))

    def _average_everywhere(self) -> None:
        self._strategy.distribution.run(self._average_here)

    def _learn_here(self, images: Any, labels: Any, flags_sent: Any) -> tuple[Any, Any]:
        gradients, probabilities = self._gradients(images, labels)
        if self._sums:
            gradients = [part + kept for part, kept in zip(gradients, self._sums, strict=True)]
        *totals, counted = self._strategy.total([*gradients, flags_sent])
        variables = [one.variable for one in self.weights]
        self.optimizer.apply_gradients(
            list(zip(totals, variables, strict=True)), skip_gradients_aggregation=True
        )
        for kept in self._sums:
            kept.assign(tf.zeros_like(kept))
        return probabilities, counted

    def _keep_here(self, images: Any, labels: Any) -> Any:
        gradients, probabilities = self._gradients(images, labels)
        for part, kept in zip(gradients, self._sums, strict=True):
            kept.assign_add(part)
        return probabilities

    def _classify_here(self, images: Any) -> Any:
        return tf.nn.softmax(self.model(images, training=False))

    def _average_here(self) -> None:
        variables = [one.variable for one in self.statistics]
        replicas = self._strategy.devices * self._strategy.workers
        totals = self._strategy.total(variables)
        for variable, total in zip(variables, totals, strict=True):
            variable.assign(total / replicas)

    def _gradients(self, images: Any, labels: Any) -> tuple[list[Any], Any]:
        """Give this replica's part of the mean gradient over all images of an update."""
        wanted = tf.cast(labels, tf.int32)
        with tf.GradientTape() as tape:
            scores = self.model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, scores)
            loss = tf.reduce_sum(losses) / self._images
        gradients = tape.gradient(loss, [one.variable for one in self.weights])
        return [tf.convert_to_tensor(part) for part in gradients], tf.nn.softmax(scores)
