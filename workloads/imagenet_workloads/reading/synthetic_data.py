"""Opens random images for the command line of a worker, whatever the framework."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from imagenet_workloads.reading.batches import ImageBatch
from imagenet_workloads.reading.ordered_data import Convert
from imagenet_workloads.train.data import Batch, Data
from imagenet_workloads.train.inputs import plain_inputs
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.sharding import MOST_BATCHES, batches_per_epoch, draw


class SyntheticTraining:
    """Random images with random labels; implements `TrainingData`."""

    ordered_batch = None

    def __init__(self, batch: Batch, batches: int, ranks: int) -> None:
        """Take the batch of each step of an epoch."""
        self._batch, self.batches_per_epoch = batch, batches
        self.images = batches * batch.images * ranks

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        """Yield the same batch for the rest of the epoch."""
        return itertools.repeat(self._batch, self.batches_per_epoch - first_batch)


def open_synthetic(
    options: Options,
    rank: int,
    ranks: int,
    accumulation_steps: int,
    convert: Convert,
    *,
    channels_first: bool,
) -> Data:
    """Draw a worker's part of one batch; `--num-examples` only sets the length of an epoch.

    Args:
        options: the command line.
        rank: this worker's.
        ranks: the number of workers.
        accumulation_steps: batches per update.
        convert: makes a framework's arrays of a batch; nothing overwrites its memory.
        channels_first: whether channels are the second axis of the images, or the last.
    """
    size, model = options.optimizer.batch_size, options.model
    seed = options.cluster.seed
    images, labels = draw(seed, rank * size, size, model.image_shape, model.num_classes)
    if not channels_first:
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    batch = convert(ImageBatch(images, labels, size, np.zeros(size, np.uint64)))
    wanted = min(options.data.num_examples, MOST_BATCHES * size * ranks)
    batches = batches_per_epoch(wanted, ranks, size, accumulation_steps)
    training = SyntheticTraining(batch, batches, ranks)
    return Data(training, None, plain_inputs(model.image_shape), (), model.num_classes, None)
