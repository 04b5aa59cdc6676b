"""Opens random images for the command line of a worker, whatever the framework."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from imagenet_spec.program.train import Options
from imagenet_workloads.data.batches import ImageBatch
from imagenet_workloads.data.inputs import Shape, plain_inputs, shape_of_epoch, validation_shape
from imagenet_workloads.data.order import batches_per_epoch
from imagenet_workloads.data.ordered_data import Convert
from imagenet_workloads.data.worker_data import Batch, Data

# Batches of made-up images in an epoch, as in MXNet's example, unless --num-examples is less.
MOST_BATCHES = 500

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def draw(
    seed: int, first: int, count: int, shape: tuple[int, int, int], classes: int
) -> tuple[Images, Labels]:
    """Draw (count, *shape) images, from -1 to 1, and labels; `first` numbers the first globally."""
    images = np.empty((count, *shape), np.float32)
    labels = np.empty(count, np.int64)
    for place in range(count):
        random = np.random.default_rng((seed, first + place))
        labels[place] = random.integers(0, classes)
        images[place] = random.random(shape, np.float32) * 2 - 1
    return images, labels


class SyntheticTraining:
    """Random images with random labels; implements `TrainingData`."""

    ordered_batch = None

    def __init__(
        self, drawn: Callable[[Shape], Batch], shape: Callable[[int], Shape], batches: int, of: int
    ) -> None:
        """Take what draws the batch of images of a shape, and the shape of each epoch.

        `batches` make an epoch, each `of` so many images of all workers together.
        """
        self._drawn, self._shape, self.batches_per_epoch = drawn, shape, batches
        self.images = batches * of
        # One size at a time: a batch may lie in the memory of a GPU.
        self._last: tuple[Shape, Batch] | None = None

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        shape = self._shape(number)
        if self._last is None or self._last[0] != shape:
            self._last = None
            self._last = shape, self._drawn(shape)
        return itertools.repeat(self._last[1], self.batches_per_epoch - first_batch)


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

    `convert` makes a framework's arrays of it, whose memory nothing overwrites.
    """
    size, model = options.optimizer.batch_size, options.model

    def drawn(shape: Shape) -> Batch:
        seed = options.cluster.seed
        images, labels = draw(seed, rank * size, size, shape, model.num_classes)
        if not channels_first:
            images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
        batch = ImageBatch(images, labels, size, np.zeros(size, np.uint64))
        return Batch(*convert(batch), size)

    def shape(epoch: int) -> Shape:
        return shape_of_epoch(model.image_shape, model.image_sizes, epoch)

    wanted = min(options.data.num_examples, MOST_BATCHES * size * ranks)
    batches = batches_per_epoch(wanted, ranks, size, accumulation_steps)
    training = SyntheticTraining(drawn, shape, batches, size * ranks)
    inputs = plain_inputs(validation_shape(model))
    return Data(training, None, inputs, (), model.num_classes, None)
