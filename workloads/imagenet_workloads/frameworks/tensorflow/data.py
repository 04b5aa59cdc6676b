"""The data that the command line names, as TensorFlow reads it. Imports TensorFlow."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from imagenet_workloads.dataset import read_dataset, require_whole
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import record_ranges
from imagenet_workloads.frameworks.tensorflow.records import RecordTraining, RecordValidation
from imagenet_workloads.train.data import (
    Batch,
    Data,
    Inputs,
    choose_inputs,
    plain_inputs,
)
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.sharding import MOST_BATCHES, batches_per_epoch, draw


def choose(options: Options, rank: int, ranks: int, accumulation_steps: int) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: of this worker.
        ranks: how many workers.
        accumulation_steps: batches that make one update.

    Raises:
        InputError: no data is named, or it cannot be read.
    """
    classes, data = options.model.num_classes, options.data
    if data.benchmark:
        synthetic = SyntheticData(options, rank, ranks, accumulation_steps)
        return Data(synthetic, None, plain_inputs(options.model.image_shape), (), classes, None)
    if data.dataset is not None:
        return _dataset(options, rank, ranks, accumulation_steps)
    if not data.data_train:
        raise InputError(
            "no data: write --dataset FOLDER, --data-train FILE.tfrecord or --benchmark 1"
        )
    inputs = choose_inputs(options)
    training = RecordTraining(
        options, inputs, record_ranges.of_paths(data.data_train), rank, ranks, accumulation_steps
    )
    validation = _validation(options, inputs, record_ranges.of_paths(data.data_val or ""))
    return Data(training, validation, inputs, (), classes, None)


def _dataset(options: Options, rank: int, ranks: int, accumulation_steps: int) -> Data:
    folder = options.data.dataset
    assert folder is not None
    found = read_dataset(folder)
    if found.format != "TFRecord":
        raise InputError(
            f"{folder}: its records are {found.format}, and TensorFlow reads TFRecord; prepare it "
            "with --format TFRecord, or write --framework MXNet"
        )
    require_whole(found, folder)
    inputs = choose_inputs(options, found.mean, found.std)
    files = record_ranges.of_split(found.train, folder)
    training = RecordTraining(options, inputs, files, rank, ranks, accumulation_steps)
    validation = _validation(options, inputs, record_ranges.of_split(found.validation, folder))
    return Data(training, validation, inputs, found.classes, len(found.classes), found.key)


def _validation(
    options: Options, inputs: Inputs, files: tuple[record_ranges.RecordFile, ...]
) -> RecordValidation | None:
    found = RecordValidation(options, inputs, files)
    return found if found.images else None


class SyntheticData:
    """Random images with random labels; implements `TrainingData`."""

    def __init__(self, options: Options, rank: int, ranks: int, accumulation_steps: int) -> None:
        """Draw this rank's part of one batch, and bring it to TensorFlow's axes."""
        size, model = options.optimizer.batch_size, options.model
        seed = options.cluster.seed
        drawn, label = draw(seed, rank * size, size, model.image_shape, model.num_classes)
        data = np.ascontiguousarray(drawn.transpose(0, 2, 3, 1))
        self._batch = Batch(tf.constant(data), tf.constant(label, tf.float32), size)
        wanted = min(options.data.num_examples, MOST_BATCHES * size * ranks)
        self.batches_per_epoch = batches_per_epoch(wanted, ranks, size, accumulation_steps)
        self.images = self.batches_per_epoch * size * ranks

    def epoch(
        self, number: int, first_batch: int, passed: Callable[[], None] = lambda: None
    ) -> Iterator[Batch]:
        """Give the same batch for what is left of the epoch."""
        return itertools.repeat(self._batch, self.batches_per_epoch - first_batch)
