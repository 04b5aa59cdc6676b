"""Opens the training and validation data of the command line for TensorFlow. Imports it."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from imagenet_workloads.reading.batches import ImageBatch
from imagenet_workloads.reading.layouts import Normalized
from imagenet_workloads.reading.ordered_data import open_ordered
from imagenet_workloads.train.data import (
    Batch,
    Data,
    Inputs,
    plain_inputs,
)
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.sharding import MOST_BATCHES, batches_per_epoch, draw


def choose(options: Options, rank: int, ranks: int, accumulation_steps: int) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: this worker's.
        ranks: the number of workers.
        accumulation_steps: batches per update.

    Raises:
        InputError: no option names data, or it cannot be read.
    """
    classes, data = options.model.num_classes, options.data
    if data.benchmark:
        synthetic = SyntheticData(options, rank, ranks, accumulation_steps)
        return Data(synthetic, None, plain_inputs(options.model.image_shape), (), classes, None)
    return open_ordered(options, rank, ranks, accumulation_steps, _normalized, _to_tensors)


def _normalized(inputs: Inputs) -> Normalized:
    return Normalized(inputs.mean, inputs.std, channels_first=False)


class SyntheticData:
    """Random images with random labels; implements `TrainingData`."""

    ordered_batch = None

    def __init__(self, options: Options, rank: int, ranks: int, accumulation_steps: int) -> None:
        """Draw this rank's part of one batch, in TensorFlow's axes."""
        size, model = options.optimizer.batch_size, options.model
        seed = options.cluster.seed
        drawn, label = draw(seed, rank * size, size, model.image_shape, model.num_classes)
        data = np.ascontiguousarray(drawn.transpose(0, 2, 3, 1))
        self._batch = Batch(tf.constant(data), tf.constant(label, tf.float32), size)
        wanted = min(options.data.num_examples, MOST_BATCHES * size * ranks)
        self.batches_per_epoch = batches_per_epoch(wanted, ranks, size, accumulation_steps)
        self.images = self.batches_per_epoch * size * ranks

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        """Yield the same batch for the rest of the epoch."""
        return itertools.repeat(self._batch, self.batches_per_epoch - first_batch)


def _to_tensors(batch: ImageBatch) -> Batch:
    return Batch(tf.constant(batch.images), tf.constant(batch.labels, tf.float32), batch.count)
