"""`--benchmark 1` for TensorFlow: the same made-up images as MXNet's. Imports TensorFlow."""

import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from imagenet_workloads.train.data.drawn import draw
from imagenet_workloads.train.data.interface import Batch
from imagenet_workloads.train.data.parts import MOST_BATCHES, batches_per_epoch
from imagenet_workloads.train.options import Options


class MadeUp:
    """Random images with random labels; implements `TrainingData`."""

    def __init__(self, options: Options, rank: int, ranks: int, together: int) -> None:
        """Draw this rank's part of one batch, and bring it to TensorFlow's axes."""
        size, model = options.optimizer.batch_size, options.model
        seed = options.cluster.seed
        drawn, label = draw(seed, rank * size, size, model.image_shape, model.num_classes)
        data = np.ascontiguousarray(drawn.transpose(0, 2, 3, 1))
        self._batch = Batch(tf.constant(data), tf.constant(label, tf.float32), size)
        wanted = min(options.data.num_examples, MOST_BATCHES * size * ranks)
        self.batches_per_epoch = batches_per_epoch(wanted, ranks, size, together)
        self.images = self.batches_per_epoch * size * ranks

    def epoch(self, number: int, first_batch: int) -> Iterator[Batch]:
        """Give the same batch for what is left of the epoch."""
        return itertools.repeat(self._batch, self.batches_per_epoch - first_batch)
