"""Opens the ordered reader for the command line of a worker, whatever the framework."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from imagenet_workloads.arguments import available_cores
from imagenet_workloads.dataset import Dataset, read_dataset, require_whole
from imagenet_workloads.errors import InputError
from imagenet_workloads.reading.augmentation import Recipe
from imagenet_workloads.reading.batches import (
    ImageBatch,
    OrderedTraining,
    OrderedValidation,
    WorkerShare,
)
from imagenet_workloads.reading.layouts import Layout
from imagenet_workloads.reading.records import Records, open_paths, open_split
from imagenet_workloads.reading.remote_dataset import open_remote_dataset
from imagenet_workloads.train.data import Batch, Data, RecordsRead
from imagenet_workloads.train.inputs import Inputs, choose_inputs
from imagenet_workloads.train.options import Options

Convert = Callable[[ImageBatch], Batch]


class Training:
    """Training images as a framework's arrays; implements `TrainingData`."""

    def __init__(self, training: OrderedTraining, convert: Convert) -> None:
        """Take the worker's share of the images."""
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
        """Return an epoch's batches; no batch before them is read."""
        position = max(first_batch * self.ordered_batch, first_image)
        for batch in self._training.epoch(number, position):
            read = RecordsRead(number, batch.first, batch.identities[: batch.count])
            yield replace(self._convert(batch), read=read)


class Validation:
    """Validation images as a framework's arrays; implements `ValidationData`."""

    def __init__(self, validation: OrderedValidation, convert: Convert) -> None:
        """Take the images."""
        self._validation, self._convert = validation, convert
        self.images = validation.images

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        """Return one rank's batches, in the order of the records."""
        return map(self._convert, self._validation.batches(rank, ranks))


@dataclass(frozen=True)
class _Found:
    train: Records
    validation: Records
    dataset: Dataset | None = None


def open_ordered(
    options: Options,
    rank: int,
    ranks: int,
    accumulation_steps: int,
    layout: Callable[[Inputs], Layout],
    convert: Convert,
) -> Data:
    """Open the records that the command line names.

    Args:
        options: the command line.
        rank: this worker's.
        ranks: the number of workers.
        accumulation_steps: batches per update.
        layout: returns how images lie in memory.
        convert: makes a framework's arrays of a batch; nothing overwrites its memory.

    Raises:
        InputError: no option names data, or it cannot be read.
    """
    found = _find(options, rank, ranks)
    size = options.optimizer.batch_size
    inputs = choose_inputs(options, found.dataset)
    recipe = _recipe(options, inputs, layout(inputs))
    share = WorkerShare(rank, ranks, size, accumulation_steps, options.cluster.seed)
    # More threads than cores would only take turns.
    threads = min(options.data.data_nthreads, available_cores())
    training = Training(OrderedTraining(found.train, recipe, share, threads), convert)
    validation = None
    if found.validation.count:
        ordered = OrderedValidation(found.validation, recipe, size, threads)
        validation = Validation(ordered, convert)
    if found.dataset is None:
        return Data(training, validation, inputs, (), options.model.num_classes, None)
    classes, words = found.dataset.classes, found.dataset.class_words
    return Data(training, validation, inputs, classes, len(classes), found.dataset.key, words)


def _recipe(options: Options, inputs: Inputs, layout: Layout) -> Recipe:
    data, off = options.data, options.augmentation.off_in_last_epochs
    return Recipe(
        inputs.image_shape,
        options.augmentation,
        data.pad_size,
        data.fill_value,
        inputs.resize,
        layout,
        max(options.optimizer.num_epochs - off, 0) if off else None,
    )


def _find(options: Options, rank: int, ranks: int) -> _Found:
    data = options.data
    if data.dataset_url is not None:
        remote = open_remote_dataset(data, options.cluster.seed, rank, ranks)
        return _Found(remote.train, remote.validation, remote.dataset)
    if data.dataset is not None:
        dataset = read_dataset(data.dataset)
        require_whole(dataset, data.dataset)
        return _Found(
            open_split(dataset.train, dataset.format, data.dataset),
            open_split(dataset.validation, dataset.format, data.dataset),
            dataset,
        )
    if not data.data_train:
        raise InputError(
            "no data: write --dataset FOLDER, --dataset-url URL, --data-train FILE or --benchmark 1"
        )
    return _Found(
        open_paths(data.data_train, data.data_train_idx),
        open_paths(data.data_val or "", data.data_val_idx),
    )
