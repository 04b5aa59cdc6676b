"""Batches of decoded images: the training images in their order, each validation image once.

A thread begins batches while the caller trains: as many as there are free slots (`memory`). Records
are read into shared memory (`windows`), and decoders fill the slots (`decoders`). Which images a
batch has, and how they are augmented, depends on the seed, the epoch and the positions, not on
decoders or workers.

A batch b of an epoch has the positions from b * global_batch_size on, those of all workers
together. The last one has what is left, and after a resume from a position within a batch the first
one has what is missing: `count` says how many images of a batch are real. To give each image
the same weight, sum the loss over them and divide by the full batch size.

The images of a batch lie in its slot: they are another batch's once the next batch is asked for.
"""

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imagenet_spec.order import FEWEST_CORES, TRAINING_SLOTS, VALIDATION_SLOTS
from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_workloads.cores import available_cores
from imagenet_workloads.data.augmentation import MIXING, Mixing, Recipe, draw_mixing
from imagenet_workloads.data.decoder import DamagedRecordError, Decoder, Encoded, Stage, Task
from imagenet_workloads.data.decoders import Decoders, ProgramDecoders, ThreadDecoders
from imagenet_workloads.data.memory import SlotArrays, Slots, SlotShape
from imagenet_workloads.data.order import Integers, Order, uniform_draws, worker_positions
from imagenet_workloads.data.windows import (
    DroppedError,
    LaneReader,
    PendingRecord,
    Wanted,
    Windows,
    largest_block,
)
from imagenet_workloads.errors import InputError
from imagenet_workloads.records.split import Records
from imagenet_workloads.telemetry.training import ReadingTimes

# The label of what fills a batch and is no image.
PADDING = -1
# Positions whose records are computed at a time: 4 MiB of memory.
POSITIONS = 1 << 15
# Images of a task for a decoder: one by one, handing them over would cost a twentieth.
TASK = 8


@dataclass(frozen=True)
class WorkerShare:
    """The images that a worker, from 0, trains; the seed is of order and augmentation."""

    worker: int
    workers: int
    batch_size_per_process: int
    accumulation_steps: int = 1
    seed: int = 0

    @property
    def global_batch_size(self) -> int:
        return self.batch_size_per_process * self.workers


@dataclass(frozen=True)
class ImageBatch:
    """The images of a step.

    Attributes:
        images: of the batch size, as the recipe's layout says; without one (images, height, width,
            channels) in uint8. Only they are overwritten, after the next batch is asked for.
        labels: (batch size,), from 0; PADDING for what fills the batch and is no image.
        count: how many, from the first, are real; the rest repeats them, or is 0 without any.
        identities: (batch size,), of the records that were read, in 64 bits.
        first: position of the first image of all workers' batches, for training.
        waits: what is added here has to return before the images are overwritten.
    """

    images: NDArray[Any]
    labels: NDArray[np.int64]
    count: int
    identities: NDArray[np.uint64]
    first: int = 0
    mixing: Mixing | None = None
    waits: list[Callable[[], None]] = field(default_factory=list)


class Decoding:
    """What decodes for training and validation: decoders, and the memory of the records."""

    memory: Windows

    def __init__(self, decoders: int, by: str | None = None) -> None:
        """Plan so many decoders, `by` THREADS or PROCESSES; None is the faster."""
        self._count, self._by = decoders, by or faster()
        self._stages: list[tuple[Stage, Records, Slots]] = []
        self._room = 0
        self._decoders: Decoders | None = None
        self._read_waited = self._decode_waited = 0.0

    def add(self, stage: Stage, records: Records, slots: int, room: int) -> tuple[int, Slots]:
        """Add what is decoded for, before it is open; return its number, and its slots.

        At most `room` bytes of records are read ahead.
        """
        assert self._decoders is None
        made = Slots(stage.shape, slots)
        self._stages.append((stage, records, made))
        # Places of different lengths leave gaps; what is never used takes no memory.
        self._room += 4 * room
        return len(self._stages) - 1, made

    def open(self) -> None:
        """Start the decoders, unless they have; they end with the thread that calls this.

        WorkloadError if the machine lets no program start.
        """
        if self._decoders is not None:
            return
        self.memory = Windows(self._room)
        stages = [stage for stage, _, _ in self._stages]
        slots = [one.memory for _, _, one in self._stages]
        if self._by == THREADS:
            view = self.memory.arena.memory.view
            decoder = Decoder(
                lambda begin, length: bytes(view[begin : begin + length]),
                stages,
                [memory.view for memory in slots],
            )
            self._decoders = ThreadDecoders(self._count, decoder)
            return
        self._decoders = ProgramDecoders(
            self._count,
            self.memory.descriptor,
            stages,
            [memory.descriptor for memory in slots],
            lambda stage, number: self._stages[stage][1].where(number),
        )

    def submit(self, task: Task, pending: Sequence[PendingRecord], work: "_Work") -> None:
        """Decode a task once its records are read; their memory is kept until it has ended."""
        assert self._decoders is not None
        decoders, lock = self._decoders, threading.Lock()
        reads = {id(one.reading): one.reading for one in pending}.values()
        left = len(reads)
        failed: BaseException | None = None

        def done(error: BaseException | None, _kept: Sequence[PendingRecord] = pending) -> None:
            work.end(task, error)

        def read(error: BaseException | None) -> None:
            nonlocal left, failed
            with lock:
                left, failed = left - 1, failed or error
                if left:
                    return
            work.read_at = time.monotonic()
            if failed is not None:
                done(failed)
                return
            try:
                decoders.submit(task, done)
            except BaseException as error:
                done(error)

        for reading in reads:
            reading.then(read)

    def waited(self, work: "_Work", begin: float, end: float) -> None:
        """Note a wait for a batch that had been begun, from `begin` to `end`."""
        read = min(max(work.read_at, begin), end)
        self._read_waited += read - begin
        self._decode_waited += end - read

    def times(self) -> ReadingTimes | None:
        """Return why was waited so far; None before it is open."""
        decoders = self._decoders
        if decoders is None:
            return None
        return ReadingTimes(
            self._read_waited, self._decode_waited, decoders.seconds, decoders.cpu_seconds
        )

    def close(self) -> None:
        """End the decoders and the reads; nobody takes a batch any more."""
        if self._decoders is not None:
            self.memory.close()
            self._decoders.close()


def faster() -> str:
    """Return what decodes faster here: threads on few cores, and without Linux's memory."""
    is_linux = sys.platform == "linux"
    return PROCESSES if is_linux and available_cores() >= FEWEST_CORES else THREADS


class OrderedTraining:
    """A worker's share of the training images.

    Attributes:
        images: of all workers together.
        batches_per_epoch: the same on every worker; a whole number of accumulated ones.
    """

    def __init__(
        self,
        records: Records,
        recipe: Recipe,
        share: WorkerShare,
        decoding: Decoding,
        epochs: int | None = None,
    ) -> None:
        """Add them to what is decoded. After `epochs` none is begun ahead; None begins none.

        InputError if there are fewer images than workers.
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
        self._records, self._recipe, self._share = records, recipe, share
        self._order, self._epochs = Order(records.count, share.seed), epochs
        self._decoding = decoding
        stage = _stage(recipe, share.batch_size_per_process, share.seed)
        # Of each lane a block is read while the last images of the one before are decoded.
        lanes = len(self._order.lanes_of(share.worker, share.workers))
        room = (lanes + TRAINING_SLOTS * stage.shape.size) * largest_block(records)
        self._stage, self.slots = decoding.add(stage, records, TRAINING_SLOTS, room)
        # The batches that are begun, and the epoch and position of the next one between epochs.
        self._ahead: _Ahead | None = None
        self._next: tuple[int, int] | None = None

    def first_batch(self, position: int) -> int:
        return position // self._share.global_batch_size

    def epoch(self, number: int, position: int = 0) -> Iterator[ImageBatch]:
        """Yield the epoch's batches from the one that has a position, without images before it.

        The first batches of the next epoch are begun when this one's are. One epoch is read at a
        time: who asks for another one gets no more of this one. Raises InputError if a record is
        damaged, and WorkloadError if a file cannot be read, or a decoder has died.
        """
        self._decoding.open()
        ahead = self._ahead
        if ahead is None or self._next != (number, position):
            self.close()
            ahead = self._ahead = _Ahead(
                self.slots,
                self._records,
                lambda wanted: self._batches(number, position, wanted),
            )
        self._next = None
        last = self.batches_per_epoch - 1
        try:
            first = self.first_batch(position)
            with closing(ahead.take(last + 1 - first)) as taken:
                for place, batch in enumerate(taken, first):
                    if place == last and number + 1 < self._end(number) and self._ahead is ahead:
                        self._next = (number + 1, 0)
                    yield batch
        finally:
            if self._ahead is ahead and self._next is None:
                self.close()

    def close(self) -> None:
        """Begin no batch any more, and forget those that are begun."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()

    def _end(self, number: int) -> int:
        return number + 1 if self._epochs is None else max(self._epochs, number + 1)

    def _batches(self, number: int, position: int, wanted: Wanted) -> "Generator[_Begin]":
        """Yield what begins each batch in a slot: of an epoch, and of those after it."""
        yield from self._of_epoch(number, position, wanted)
        for later in range(number + 1, self._end(number)):
            yield from self._of_epoch(later, 0, wanted)

    def _of_epoch(self, number: int, position: int, wanted: Wanted) -> "Iterator[_Begin]":
        share, records = self._share, self._records
        recipe = self._recipe.of_epoch(number)
        with records.ahead(self._needed(number, position)):
            lanes = LaneReader(
                records,
                self._order,
                number,
                share.worker,
                share.workers,
                self._decoding.memory,
                wanted,
            )
            for batch in range(self.first_batch(position), self.batches_per_epoch):
                begin = max(batch * share.global_batch_size, position)
                end = min((batch + 1) * share.global_batch_size, self.images)
                own = worker_positions(begin, end, share.worker, share.workers)

                def start(slot: int, own: Integers = own, begin: int = begin) -> _PendingBatch:
                    mixing = None
                    if recipe.augmentation.mixup or recipe.augmentation.cutmix:
                        draws = uniform_draws(share.seed, number, own, recipe.draws)[:, MIXING]
                        mixing = draw_mixing(draws, recipe.target, recipe.augmentation)
                    pending = lanes.begin(own)
                    first = int(own[0]) if len(own) else 0
                    task = Task(self._stage, slot, 0, number, first, share.workers, ())
                    arrays = self.slots.arrays(slot, recipe.image)
                    return _PendingBatch(self._decoding, arrays, task, pending, begin, mixing)

                yield start

    def _needed(self, number: int, position: int) -> Iterator[int]:
        """Yield the records of this worker in the order of an epoch, from a position on."""
        share = self._share
        step = POSITIONS * share.workers
        for begin in range(position, self.images, step):
            end = min(begin + step, self.images)
            own = worker_positions(begin, end, share.worker, share.workers)
            yield from self._order.at(number, own).tolist()


def validation_share(images: int, worker: int, workers: int) -> range:
    """Return the validation images of a worker."""
    step = -(-images // workers)
    return range(min(step * worker, images), min(step * (worker + 1), images))


class OrderedValidation:
    """The validation images, each in one batch of one worker."""

    def __init__(
        self, records: Records, recipe: Recipe, batch_size: int, decoding: Decoding
    ) -> None:
        self.images = records.count
        self._records, self._size, self._decoding = records, batch_size, decoding
        stage = _stage(recipe, batch_size)
        # Each batch is read by itself.
        room = (VALIDATION_SLOTS + 1) * batch_size * records.largest
        self._stage, self.slots = decoding.add(stage, records, VALIDATION_SLOTS, room)
        self._ahead: _Ahead | None = None

    def batches(self, worker: int, workers: int) -> Iterator[ImageBatch]:
        """Yield the batches of one worker: a contiguous part of the records, in their order.

        Who asks for them again gets no more of the former ones.
        """
        self._decoding.open()
        self.close()
        own = validation_share(self.images, worker, workers)
        ahead = self._ahead = _Ahead(
            self.slots, self._records, lambda wanted: self._batches(own, wanted)
        )
        try:
            with closing(ahead.take(-(-len(own) // self._size))) as taken:
                yield from taken
        finally:
            if self._ahead is ahead:
                self.close()

    def close(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()

    def _batches(self, own: range, wanted: Wanted) -> "Generator[_Begin]":
        size, records = self._size, self._records
        for begin in range(own.start, own.stop, size):

            def start(slot: int, begin: int = begin) -> _PendingBatch:
                pending: list[PendingRecord] = []
                for run in records.runs(range(begin, min(begin + size, own.stop))):
                    pending += self._decoding.memory.read(records, run, wanted)
                task = Task(self._stage, slot, 0, 0, 0, 0, ())
                return _PendingBatch(self._decoding, self.slots.arrays(slot), task, pending)

            yield start


def _stage(recipe: Recipe, size: int, seed: int | None = None) -> Stage:
    return Stage(recipe, SlotShape(size, recipe.image, recipe.layout.dtype), seed)


class _Work:
    """The tasks of a batch; `read_at` is when the last of their records so far was read."""

    def __init__(self, tasks: int) -> None:
        self._left, self._lock, self._ended = tasks, threading.Lock(), threading.Event()
        self._errors: list[tuple[int, BaseException]] = []
        self.read_at = 0.0
        if not tasks:
            self._ended.set()

    def end(self, task: Task, error: BaseException | None) -> None:
        with self._lock:
            self._left -= 1
            if error is not None:
                self._errors.append((task.place, error))
            if not self._left:
                self._ended.set()

    def wait(self) -> BaseException | None:
        self._ended.wait()
        return min(self._errors, key=lambda found: found[0])[1] if self._errors else None


class _PendingBatch:
    def __init__(
        self,
        decoding: Decoding,
        arrays: SlotArrays,
        task: Task,
        pending: Sequence[PendingRecord],
        first: int = 0,
        mixing: Mixing | None = None,
    ) -> None:
        self.slot, self._arrays, self._count = task.slot, arrays, len(pending)
        self._decoding = decoding
        self._first, self._mixing = first, mixing
        begins = range(0, len(pending), TASK)
        self.work = _Work(len(begins))
        for begin in begins:
            part = pending[begin : begin + TASK]
            records = [Encoded(one.number, one.format, one.begin, one.length) for one in part]
            decoding.submit(
                task._replace(
                    place=begin, position=task.position + begin * task.stride, records=records
                ),
                part,
                self.work,
            )

    def finish(self, records: Records) -> ImageBatch:
        begin = time.monotonic()
        error = self.work.wait()
        self._decoding.waited(self.work, begin, time.monotonic())
        if isinstance(error, DamagedRecordError):
            raise records.damaged(error.number, error.what)
        if error is not None:
            raise error
        images, labels, identities = self._arrays
        labels = labels.copy()
        if self._count < len(labels):
            padding = np.arange(self._count, len(labels))
            images[padding] = images[padding % self._count] if self._count else 0
            labels[padding] = PADDING
        return ImageBatch(images, labels, self._count, identities.copy(), self._first, self._mixing)


_Begin = Callable[[int], _PendingBatch]
"""Begins a batch in a slot."""


class _Ahead:
    """Batches that a thread begins, each as soon as there is a slot."""

    def __init__(
        self,
        slots: Slots,
        records: Records,
        batches: Callable[[Wanted], "Generator[_Begin]"],
    ) -> None:
        self._slots, self._records, self._wanted = slots, records, Wanted()
        self._begins = batches(self._wanted)
        self._begun: SimpleQueue[_PendingBatch | BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._begin, name="read-ahead", daemon=True)
        self._thread.start()

    def take(self, count: int) -> "Generator[ImageBatch]":
        """Yield the next batches, so many; the slot of one is free when the next is asked for."""
        for _ in range(count):
            pending = self._next()
            if not isinstance(pending, _PendingBatch):
                raise pending or self._wanted.error or RuntimeError("no batch was begun")
            waits: Sequence[Callable[[], None]] = ()
            try:
                batch = pending.finish(self._records)
                waits = batch.waits
                yield batch
            finally:
                self._slots.give_back(pending.slot, waits)

    def close(self) -> None:
        """End the thread, and free the slots of what it has begun."""
        if sys.is_finalizing():
            # Of a generator that nobody has closed: no other thread runs any more.
            return
        self._wanted.end(DroppedError())
        while (pending := self._next()) is not None:
            if isinstance(pending, _PendingBatch):
                pending.work.wait()
                self._slots.give_back(pending.slot)
        self._thread.join()

    def _next(self) -> "_PendingBatch | BaseException | None":
        begun = self._begun.get()
        if begun is None:
            # The end stays, for whoever asks again.
            self._begun.put(None)
        return begun

    def _begin(self) -> None:
        try:
            with closing(self._begins):
                for begin in self._begins:
                    slot = self._slots.take()
                    pending = None
                    try:
                        if self._wanted.error is None:
                            pending = begin(slot)
                    finally:
                        if pending is None:
                            self._slots.give_back(slot)
                    if pending is None:
                        break
                    self._begun.put(pending)
        except BaseException as error:
            self._begun.put(error)
        finally:
            self._begun.put(None)
