"""Opens the training and validation data of the command line for PyTorch, and imports it.

`reading` reads and decodes, in the order of training. Channels are the last axis of images, which
the learner's layers prefer. For a GPU they are bytes, which it normalises itself; for the CPU the
threads that decode normalise them. The arrays share the memory of the batches.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch

from imagenet_workloads.reading.batches import ImageBatch
from imagenet_workloads.reading.layouts import Bytes, Layout, Normalized
from imagenet_workloads.reading.ordered_data import open_ordered
from imagenet_workloads.train.data import Batch, Data, Inputs, plain_inputs
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.sharding import MOST_BATCHES, batches_per_epoch, draw


def choose(
    options: Options, rank: int, ranks: int, accumulation_steps: int, device: torch.device
) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: this process's.
        ranks: the number of processes.
        accumulation_steps: batches per update.
        device: where the network is.

    Raises:
        InputError: no option names data, or it cannot be read.
    """
    if options.data.benchmark:
        synthetic, model = SyntheticData(options, rank, ranks, accumulation_steps), options.model
        return Data(synthetic, None, plain_inputs(model.image_shape), (), model.num_classes, None)

    def layout(inputs: Inputs) -> Layout:
        if device.type == "cuda":
            return Bytes()
        return Normalized(inputs.mean, inputs.std, channels_first=False)

    return open_ordered(options, rank, ranks, accumulation_steps, layout, _to_tensors)


class SyntheticData:
    """Random images with random labels; implements `TrainingData`."""

    ordered_batch = None

    def __init__(self, options: Options, rank: int, ranks: int, accumulation_steps: int) -> None:
        """Draw this process's part of one batch."""
        size, model = options.optimizer.batch_size, options.model
        seed = options.cluster.seed
        drawn, labels = draw(seed, rank * size, size, model.image_shape, model.num_classes)
        data = np.ascontiguousarray(drawn.transpose(0, 2, 3, 1))
        self._batch = Batch(torch.from_numpy(data), torch.from_numpy(labels), size)
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
    images, labels = torch.from_numpy(batch.images), torch.from_numpy(batch.labels)
    return Batch(images, labels, batch.count, mixing=batch.mixing)
