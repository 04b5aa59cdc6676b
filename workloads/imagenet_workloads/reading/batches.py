"""Batches of decoded images: the training images in their order, each validation image once.

Threads read and decode AHEAD batches while the caller trains. Which images a batch has, and how
they are augmented, depends on the seed, the epoch and the positions, not on threads or workers.

A batch b of an epoch has the positions from b * global_batch_size on, those of all workers
together. The last one has what is left, and after a resume from a position within a batch the first
one has what is missing: `count` says how many images of a batch are real. To give each image
the same weight, sum the loss over them and divide by the full batch size.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.errors import InputError
from imagenet_workloads.reading.augmentation import (
    MIXING,
    Recipe,
    training_pixels,
    validation_pixels,
)
from imagenet_workloads.reading.decode import Pixels
from imagenet_workloads.reading.lane_reader import LaneReader, PendingRecord
from imagenet_workloads.reading.mixing import Mixing, draw_mixing
from imagenet_workloads.reading.records import Records
from imagenet_workloads.train.order import Order, uniform_draws, worker_positions

# Batches in the making. More would only cost memory: threads start the second one as soon as the
# first one has no image left for them.
AHEAD = 2
# Reads at a time; they wait for the disk and need no core.
READERS = 8
# The label of what fills a batch and is no image.
PADDING = -1
# Positions whose records are computed at a time: 4 MiB of memory.
POSITIONS = 1 << 15
# Images of a task for a thread: one by one, handing them over would cost a twentieth.
TASK = 8


@dataclass(frozen=True)
class WorkerShare:
    """The part of the images that a worker trains.

    Attributes:
        worker: from 0.
        workers: how many there are.
        batch_size_per_process: images a step of a worker.
        accumulation_steps: batches that make one update.
        seed: of order and augmentation.
    """

    worker: int
    workers: int
    batch_size_per_process: int
    accumulation_steps: int = 1
    seed: int = 0

    @property
    def global_batch_size(self) -> int:
        """Images a step of all workers."""
        return self.batch_size_per_process * self.workers


@dataclass(frozen=True)
class ImageBatch:
    """The images of a step.

    Attributes:
        images: of the batch size, as the recipe's layout says; without one (images, height, width,
            channels) in uint8.
        labels: (batch size,), from 0; PADDING for what fills the batch and is no image.
        count: how many, from the first, are real; the rest repeats them, or is 0 without any.
        identities: (batch size,), of the records that were read, in 64 bits.
        first: position of the first image of all workers' batches, for training.
        mixing: of the real ones; None if they are not mixed.
    """

    images: NDArray[Any]
    labels: NDArray[np.int64]
    count: int
    identities: NDArray[np.uint64]
    first: int = 0
    mixing: Mixing | None = None


# From the place of an image in its batch and its bytes to pixels.
_Decode = Callable[[int, bytes], Pixels]


class OrderedTraining:
    """A worker's share of the training images.

    Attributes:
        images: of all workers together.
        batches_per_epoch: the same on every worker; a whole number of accumulated ones.
        global_batch_size: images a step of all workers.
    """

    def __init__(self, records: Records, recipe: Recipe, share: WorkerShare, threads: int) -> None:
        """Take the images of the split, their augmentation, and the threads that decode.

        Raises:
            InputError: there are fewer images than workers.
        """
        if records.count < share.workers:
            raise InputError(
                f"{records.count} training images are too few for {share.workers} workers; "
                "use fewer"
            )
        self.images = records.count
        self.global_batch_size = share.global_batch_size
        update = share.global_batch_size * share.accumulation_steps
        self.batches_per_epoch = -(-records.count // update) * share.accumulation_steps
        self._records, self._recipe, self._share, self._threads = records, recipe, share, threads
        self._order = Order(records.count, share.seed)

    def first_batch(self, position: int) -> int:
        """Return the batch that a position is in."""
        return position // self._share.global_batch_size

    def epoch(self, number: int, position: int = 0) -> Iterator[ImageBatch]:
        """Yield the epoch's batches from the one that has a position, without images before it.

        Raises:
            InputError: a record is damaged.
            WorkloadError: a file cannot be read.
        """
        share, records = self._share, self._records
        recipe = self._recipe.of_epoch(number)
        needed = self._needed(number, position)
        with records.ahead(needed), _threads(self._threads) as (decoders, readers):
            lanes = LaneReader(records, self._order, number, share.worker, share.workers, readers)

            def start(batch: int) -> _PendingBatch:
                begin = max(batch * share.global_batch_size, position)
                end = min((batch + 1) * share.global_batch_size, self.images)
                own = worker_positions(begin, end, share.worker, share.workers)
                numbers = uniform_draws(share.seed, number, own, recipe.draws)
                draws = numbers.tolist()
                return self._start(
                    decoders,
                    begin,
                    lanes.begin(own),
                    lambda place, encoded: training_pixels(encoded, draws[place], recipe),
                    draw_mixing(numbers[:, MIXING], recipe.target, recipe.augmentation),
                )

            batches = range(self.first_batch(position), self.batches_per_epoch)
            yield from _ahead(start, batches)

    def _needed(self, number: int, position: int) -> Iterator[int]:
        """Yield the records of this worker in the order of an epoch, from a position on."""
        share = self._share
        step = POSITIONS * share.workers
        for begin in range(position, self.images, step):
            end = min(begin + step, self.images)
            own = worker_positions(begin, end, share.worker, share.workers)
            yield from self._order.at(number, own).tolist()

    def _start(
        self,
        decoders: ThreadPoolExecutor,
        first: int,
        pending: list[PendingRecord],
        decode: _Decode,
        mixing: Mixing | None,
    ) -> "_PendingBatch":
        size = self._share.batch_size_per_process
        return _PendingBatch.start(
            decoders, self._records, self._recipe, size, pending, decode, first, mixing
        )


def validation_share(images: int, worker: int, workers: int) -> range:
    """Return the validation images of a worker."""
    step = -(-images // workers)
    return range(min(step * worker, images), min(step * (worker + 1), images))


class OrderedValidation:
    """The validation images, each in one batch of one worker.

    Attributes:
        images: of all workers together.
    """

    def __init__(self, records: Records, recipe: Recipe, batch_size: int, threads: int) -> None:
        """Take the images of the split, and the images of a batch."""
        self.images = records.count
        self._records, self._recipe = records, recipe
        self._batch_size, self._threads = batch_size, threads

    def batches(self, worker: int, workers: int) -> Iterator[ImageBatch]:
        """Yield the batches of one worker: a contiguous part of the records, in their order."""
        own = validation_share(self.images, worker, workers)
        size = self._batch_size
        with _threads(self._threads) as (decoders, readers):

            def start(begin: int) -> _PendingBatch:
                numbers = range(begin, min(begin + size, own.stop))
                pending: list[PendingRecord] = []
                for run in self._records.runs(numbers):
                    read = readers.submit(self._records.read, run)
                    pending += [PendingRecord(one, read, place) for place, one in enumerate(run)]
                return _PendingBatch.start(
                    decoders,
                    self._records,
                    self._recipe,
                    size,
                    pending,
                    lambda _, encoded: validation_pixels(encoded, self._recipe),
                )

            yield from _ahead(start, range(own.start, own.stop, size))


class _PendingBatch:
    """A batch that threads decode."""

    def __init__(self, batch: ImageBatch, tasks: "Sequence[Future[None]]") -> None:
        self._batch, self._tasks = batch, tasks

    @classmethod
    def start(
        cls,
        decoders: ThreadPoolExecutor,
        records: Records,
        recipe: Recipe,
        size: int,
        pending: Sequence[PendingRecord],
        decode: _Decode,
        first: int = 0,
        mixing: Mixing | None = None,
    ) -> "_PendingBatch":
        """Hand the images over to threads, a few at a time."""
        layout = recipe.layout
        images = layout.allocate(size, recipe.target, recipe.image_shape[0])
        labels, identities = np.zeros(size, np.int64), np.zeros(size, np.uint64)

        def run(begin: int) -> None:
            for place, record in enumerate(pending[begin : begin + TASK], start=begin):
                found = records.parse(record.number, record.take())
                labels[place], identities[place] = found.label, found.identity
                try:
                    layout.put(images, place, decode(place, found.encoded))
                except ValueError as error:
                    raise records.damaged(record.number, str(error)) from None

        tasks = [decoders.submit(run, begin) for begin in range(0, len(pending), TASK)]
        return cls(ImageBatch(images, labels, len(pending), identities, first, mixing), tasks)

    def finish(self) -> ImageBatch:
        """Wait for the images."""
        for task in self._tasks:
            task.result()
        batch = self._batch
        padding = np.arange(batch.count, len(batch.labels))
        if batch.count:
            batch.images[padding] = batch.images[padding % batch.count]
        else:
            batch.images[:] = 0
        batch.labels[padding] = PADDING
        return batch


def _ahead(start: Callable[[int], _PendingBatch], batches: range) -> Iterator[ImageBatch]:
    """Yield the batches that `start` begins, AHEAD of them at a time."""
    begun: deque[_PendingBatch] = deque()
    for batch in batches:
        begun.append(start(batch))
        if len(begun) > AHEAD:
            yield begun.popleft().finish()
    while begun:
        yield begun.popleft().finish()


@contextmanager
def _threads(decoders: int) -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
    """Run threads that decode and threads that read; what is not begun at the end is dropped."""
    # Otherwise OpenCV would start its own threads for each of ours.
    cv2.setNumThreads(1)
    decoding = ThreadPoolExecutor(decoders, "decode")
    reading = ThreadPoolExecutor(READERS, "read")
    try:
        yield decoding, reading
    finally:
        # Decoders wait for readers, so readers must finish what decoders have begun.
        decoding.shutdown(cancel_futures=True)
        reading.shutdown(cancel_futures=True)
