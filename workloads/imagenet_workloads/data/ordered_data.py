"""Opens the ordered reader for the command line of a worker, whatever the framework."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from imagenet_spec.program.train import DataOptions, Options
from imagenet_workloads import files
from imagenet_workloads.clients.folders import open_folder
from imagenet_workloads.cores import available_cores
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import (
    Decoding,
    ImageBatch,
    OrderedTraining,
    OrderedValidation,
    WorkerShare,
    validation_share,
)
from imagenet_workloads.data.inputs import Inputs, choose_inputs
from imagenet_workloads.data.layouts import Layout
from imagenet_workloads.data.order import Order
from imagenet_workloads.data.worker_data import Batch, Data, RecordsRead
from imagenet_workloads.dataset import Dataset, read_dataset, require_whole
from imagenet_workloads.errors import InputError, output_error
from imagenet_workloads.records.remote import (
    RemoteRecords,
    open_remote_split,
    read_remote_dataset,
    require_room,
)
from imagenet_workloads.records.split import Records, open_paths, open_split
from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.rendezvous.horovod import HorovodSlot

Convert = Callable[[ImageBatch], tuple[Any, Any]]
"""Returns `data` and `label` of a `Batch`."""

# Each takes some 45 MB. Who wants more on a machine without a limit says so.
MOST_DECODERS = 16
# The processes of a training in this pod.
_LOCAL_SIZES = (HorovodSlot.variables.local_size, Process.variables.local_size)


class Training:
    """Training images as a framework's arrays; implements `TrainingData`."""

    def __init__(self, training: OrderedTraining, convert: Convert) -> None:
        self._training, self._convert = training, convert
        self.images, self.batches_per_epoch = training.images, training.batches_per_epoch
        self.ordered_batch = training.global_batch_size

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        position = max(first_batch * self.ordered_batch, first_image)
        batches = (
            (batch, RecordsRead(number, batch.first, batch.identities[: batch.count]))
            for batch in self._training.epoch(number, position)
        )
        return _converted(batches, self._convert)


class Validation:
    """Validation images as a framework's arrays; implements `ValidationData`."""

    def __init__(self, validation: OrderedValidation, convert: Convert) -> None:
        self._validation, self._convert = validation, convert
        self.images = validation.images

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        batches = ((batch, None) for batch in self._validation.batches(rank, ranks))
        return _converted(batches, self._convert)


def _converted(
    batches: Iterable[tuple[ImageBatch, RecordsRead | None]], convert: Convert
) -> Iterator[Batch]:
    """Yield batches as a framework's arrays; each frees those of the batch before first."""
    made: Batch | None = None
    for batch, read in batches:
        begin = time.thread_time()
        made = None
        data, label = convert(batch)
        made = Batch(
            data,
            label,
            images=batch.count,
            read=read,
            mixing=batch.mixing,
            waits=batch.waits,
            cpu_seconds=time.thread_time() - begin,
        )
        del data, label
        yield made


def open_ordered(
    options: Options,
    rank: int,
    ranks: int,
    accumulation_steps: int,
    layout: Callable[[Inputs], Layout],
    convert: Convert,
    share_memory: Callable[[memoryview], Callable[[], None]] = lambda memory: lambda: None,
) -> Data:
    """Open the records that the command line names; InputError if none or unreadable ones.

    Args:
        options: the command line.
        rank: this worker's.
        ranks: the number of workers.
        accumulation_steps: batches per update.
        layout: returns how images lie in memory.
        convert: makes a framework's arrays of a batch, whose images are overwritten after the next
            batch is asked for, and after what is in its `waits`.
        share_memory: is given the memory of all batches, once, and returns what takes it back.
    """
    train_records, validation_records, dataset = _find(options, rank, ranks)
    size = options.optimizer.batch_size
    inputs = choose_inputs(options, dataset)
    off = options.augmentation.off_in_last_epochs
    recipe = Recipe(
        inputs.image_shape,
        options.augmentation,
        options.data.pad_size,
        options.data.fill_value,
        inputs.resize,
        layout(inputs),
        max(options.optimizer.num_epochs - off, 0) if off else None,
    )
    model = options.model
    varied = replace(recipe, image_shape=model.image_shape, sizes=model.image_sizes)
    share = WorkerShare(rank, ranks, size, accumulation_steps, options.cluster.seed)
    decoding = Decoding(decoding_cores(options.data.data_nthreads), options.data.decoding)
    # `--test-io` reads one epoch.
    epochs = None if options.data.test_io else options.optimizer.num_epochs
    ordered = OrderedTraining(train_records, varied, share, decoding, epochs)
    training, validation = Training(ordered, convert), None
    ends = ExitStack()
    ends.callback(decoding.close)
    ends.callback(share_memory(ordered.slots.memory.view))
    ends.callback(ordered.close)
    if validation_records.count:
        validating = OrderedValidation(validation_records, recipe, size, decoding)
        validation = Validation(validating, convert)
        ends.callback(share_memory(validating.slots.memory.view))
        ends.callback(validating.close)
    # Now, so that they are ready when the network is.
    decoding.open()
    classes = model.num_classes
    read = Data(
        training,
        validation,
        inputs,
        (),
        classes,
        None,
        close=ends.close,
        times=decoding.times,
        validation_records=lambda: validation_records,
    )
    if dataset is None:
        return read
    return replace(
        read,
        classes=dataset.classes,
        class_count=len(dataset.classes),
        key=dataset.key,
        class_words=dataset.class_words,
        dataset=dataset,
    )


def decoding_cores(wanted: int | None, variables: Mapping[str, str] = os.environ) -> int:
    """Return the cores that decode images for this process; more would only take turns.

    By default these are those of its pod, less one for each process of the training there, divided
    by these processes; on a whole machine MOST_DECODERS at most.
    """
    if wanted is not None:
        return min(wanted, available_cores())
    local = next(filter(None, map(variables.get, _LOCAL_SIZES)), "1")
    processes = max(1, int(local)) if local.isdecimal() else 1
    cores = available_cores(at_most=(MOST_DECODERS + 1) * processes)
    return max(1, (cores - processes) // processes)


def _find(options: Options, rank: int, ranks: int) -> tuple[Records, Records, Dataset | None]:
    data = options.data
    if data.dataset_url is not None:
        remote = open_remote_dataset(data, options.cluster.seed, rank, ranks)
        return remote.train, remote.validation, remote.dataset
    if data.dataset is not None:
        dataset = read_dataset(data.dataset)
        require_whole(dataset, data.dataset)
        return (
            open_split(dataset.train, dataset.format, data.dataset),
            open_split(dataset.validation, dataset.format, data.dataset),
            dataset,
        )
    if not data.data_train:
        raise InputError(
            "no data: write --dataset FOLDER, --dataset-url URL, --data-train FILE or --benchmark 1"
        )
    return (
        open_paths(data.data_train, data.data_train_idx),
        open_paths(data.data_val or "", data.data_val_idx),
        None,
    )


@dataclass(frozen=True)
class RemoteDataset:
    """A published dataset: its dataset.json, and its images."""

    dataset: Dataset
    train: RemoteRecords
    validation: RemoteRecords


def open_remote_dataset(data: DataOptions, seed: int, rank: int, ranks: int) -> RemoteDataset:
    """Open the dataset of `--dataset-url`, and its cache for the lanes that the worker reads.

    If n divides the number of lanes, worker w of n has the same lanes in every epoch (`order`). Its
    cache then holds 1/n of the training images, and its own validation images. InputError if there
    is no published dataset, or the cache is too small; WorkloadError if the server cannot be
    reached, or the cache cannot be used.
    """
    assert data.dataset_url is not None
    folder = open_folder(
        data.dataset_url, data.dataset_endpoint, data.dataset_region, data.dataset_query_key
    )
    dataset = read_remote_dataset(folder)
    train = open_remote_split(dataset.train, dataset.format, folder)
    validation = open_remote_split(dataset.validation, dataset.format, folder)
    if data.cache is not None:
        trained = train.blocks(Order(train.count, seed).lanes_of(rank, ranks))
        validated = validation.blocks([validation_share(validation.count, rank, ranks)])
        # Several processes may share a pod.
        cache = data.cache / f"rank-{rank}"
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(f"cannot make the cache {cache}", error) from error
        free = files.free_bytes(cache)
        limit = free if data.cache_size is None else min(free, data.cache_size)
        require_room(
            sum(map(train.block_size, trained)) + sum(map(validation.block_size, validated)), limit
        )
        train.keep(cache / "train", trained)
        validation.keep(cache / "validation", validated)
    return RemoteDataset(dataset, train, validation)
