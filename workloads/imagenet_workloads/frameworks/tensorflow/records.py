"""TFRecord files by tf.data: decoded, varied and shuffled by seeds, in batches of one size.

Imports TensorFlow.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import augmentation, decode, record_ranges
from imagenet_workloads.train.data import Batch, Inputs
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.sharding import batches_per_epoch, seed_of, share

# Encoded images that are shuffled at a time; records are in random order already.
SHUFFLED_BYTES = 256 << 20
# Files that are read at a time.
OPEN_FILES = 4


class RecordTraining:
    """Training images; implements `TrainingData`."""

    def __init__(
        self,
        options: Options,
        inputs: Inputs,
        files: Sequence[record_ranges.RecordFile],
        rank: int,
        ranks: int,
        accumulation_steps: int,
    ) -> None:
        """Plan the epochs.

        Args:
            options: batch size, augmentation, threads and seed.
            inputs: how images are normalised.
            files: all of them.
            rank: of this worker.
            ranks: how many workers.
            accumulation_steps: batches that make one update.

        Raises:
            InputError: too few images for so many workers.
        """
        self.images = sum(file.records for file in files)
        if share(self.images, ranks - 1, ranks) == 0:
            raise InputError(
                f"{self.images} training images are too few for {ranks} workers: take fewer"
            )
        self._size = options.optimizer.batch_size
        self.batches_per_epoch = batches_per_epoch(
            self.images, ranks, self._size, accumulation_steps
        )
        self._options, self._inputs, self._files = options, inputs, files
        self._rank, self._ranks = rank, ranks

    def epoch(
        self, number: int, first_batch: int, passed: Callable[[], None] = lambda: None
    ) -> Iterator[Batch]:
        """Give an epoch's batches from `first_batch` on, decided by the seed and the number.

        Parts go round the workers by epoch, so that each sees all images. A part that is smaller
        than an epoch begins again.
        """
        part = (self._rank + number) % self._ranks
        seed = seed_of(self._options.cluster.seed, number, part)
        mine = record_ranges.of_rank(self._files, part, self._ranks)
        order = np.random.default_rng(seed).permutation(len(mine))
        records = _records([mine[place] for place in order])
        records = records.shuffle(self._shuffled(mine), seed).repeat()
        first = first_batch * self._size
        last = self.batches_per_epoch * self._size
        source = records.enumerate().take(last).skip(first)
        source = _parallel(source, lambda at, record: self._image(seed, at, record), self._options)
        for data, label in source.batch(self._size, drop_remainder=True).prefetch(2):
            yield Batch(data, label, self._size)

    def _image(self, seed: int, place: Any, record: Any) -> tuple[Any, Any]:
        pixels, label = decode.parse(record, self._inputs.image_shape[0])
        pixels = augmentation.varied(
            pixels, tf.stack([tf.constant(seed, tf.int64), place]), self._options
        )
        return decode.normalized(pixels, self._inputs), label

    def _shuffled(self, mine: Sequence[record_ranges.RecordRange]) -> int:
        mean = sum(file.bytes for file in self._files) / self.images
        return max(min(sum(one.take for one in mine), int(SHUFFLED_BYTES / mean)), 1)


class RecordValidation:
    """Validation images, as they are but for a central crop; implements `ValidationData`."""

    def __init__(
        self, options: Options, inputs: Inputs, files: Sequence[record_ranges.RecordFile]
    ) -> None:
        """Take the files, and how images are prepared."""
        self.images = sum(file.records for file in files)
        self._options, self._inputs, self._files = options, inputs, files

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        """Give one rank's batches, in the order of the records; the last is filled with zeros."""
        mine = record_ranges.of_rank(self._files, rank, ranks)
        if not mine:
            return
        size = self._options.optimizer.batch_size
        source = _parallel(_records(mine), self._image, self._options)
        for data, label in source.batch(size).prefetch(2):
            images = len(label)
            missing = size - images
            if missing:
                data = tf.pad(data, [[0, missing], [0, 0], [0, 0], [0, 0]])
                label = tf.pad(label, [[0, missing]])
            yield Batch(data, label, images)

    def _image(self, record: Any) -> tuple[Any, Any]:
        pixels, label = decode.parse(record, self._inputs.image_shape[0])
        return decode.normalized(decode.central(pixels, self._inputs), self._inputs), label


def _records(mine: Sequence[record_ranges.RecordRange]) -> Any:
    """Read record_ranges, several at a time, always in the same order."""
    columns = (
        [str(one.path) for one in mine],
        tf.constant([one.skip for one in mine], tf.int64),
        tf.constant([one.take for one in mine], tf.int64),
    )
    return tf.data.Dataset.from_tensor_slices(columns).interleave(
        _without_autograph(
            lambda path, skip, take: tf.data.TFRecordDataset(path).skip(skip).take(take)
        ),
        cycle_length=min(len(mine), OPEN_FILES),
    )


def _without_autograph(function: Any) -> Any:
    """Keep TensorFlow from translating a function that has no branch of Python's over tensors."""
    return tf.autograph.experimental.do_not_convert(function)


def _parallel(source: Any, decode_one: Any, options: Options) -> Any:
    threads = options.data.data_nthreads
    settings = tf.data.Options()
    settings.deterministic = True
    settings.threading.private_threadpool_size = threads
    settings.autotune.enabled = False
    return source.map(_without_autograph(decode_one), threads, deterministic=True).with_options(
        settings
    )
