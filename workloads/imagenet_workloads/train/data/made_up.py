"""`--benchmark 1`: the same made-up images again and again, so that only training takes time."""

import itertools
from collections.abc import Iterator

import mxnet as mx

from imagenet_workloads.train.data.drawn import draw
from imagenet_workloads.train.data.interface import Batch
from imagenet_workloads.train.data.parts import MOST_BATCHES, batches_per_epoch


class MadeUp:
    """Random images with random labels; implements `TrainingData`."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        classes: int,
        batch_size: int,
        images: int,
        rank: int,
        ranks: int,
        together: int,
        seed: int,
    ) -> None:
        """Draw this rank's part of one batch; `images` only decides how long an epoch is."""
        data, label = draw(seed, rank * batch_size, batch_size, image_shape, classes)
        self._batch = Batch(mx.nd.array(data), mx.nd.array(label), batch_size)
        wanted = min(images, MOST_BATCHES * batch_size * ranks)
        self.batches_per_epoch = batches_per_epoch(wanted, ranks, batch_size, together)
        self.images = self.batches_per_epoch * batch_size * ranks

    def epoch(self, number: int, first_batch: int) -> Iterator[Batch]:
        """Give the same batch for what is left of the epoch."""
        return itertools.repeat(self._batch, self.batches_per_epoch - first_batch)
