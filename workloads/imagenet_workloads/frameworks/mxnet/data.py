"""Opens the training and validation data of the command line for MXNet. Imports MXNet."""

from dataclasses import dataclass
from pathlib import Path

import mxnet as mx

from imagenet_workloads.dataset import Dataset, read_dataset, require_whole
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.record_files import RecordFiles, of_paths, of_split
from imagenet_workloads.frameworks.mxnet.records import (
    Reader,
    RecordTraining,
    RecordValidation,
    augmentation_arguments,
)
from imagenet_workloads.reading.batches import ImageBatch
from imagenet_workloads.reading.layouts import Normalized
from imagenet_workloads.reading.ordered_data import decoding_cores, open_ordered
from imagenet_workloads.reading.synthetic_data import open_synthetic
from imagenet_workloads.train.data import Batch, Data
from imagenet_workloads.train.inputs import Inputs, choose_inputs
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.options.reader import is_ordered


@dataclass(frozen=True)
class _Found:
    train: RecordFiles
    validation: RecordFiles | None
    dataset: Dataset | None = None


def choose(options: Options, rank: int, ranks: int, accumulation_steps: int, scratch: Path) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: this worker's.
        ranks: the number of workers.
        accumulation_steps: batches per update.
        scratch: a folder for index files.

    Raises:
        InputError: no option names data, or it cannot be read.
    """
    if options.data.benchmark:
        return open_synthetic(
            options, rank, ranks, accumulation_steps, _to_arrays, channels_first=True
        )
    if is_ordered(options):
        return _ordered(options, rank, ranks, accumulation_steps)
    found = _find(options, scratch)
    inputs = choose_inputs(options, found.dataset)
    reader = Reader(
        inputs.image_shape,
        options.optimizer.batch_size,
        inputs.mean,
        inputs.std,
        decoding_cores(options.data.data_nthreads),
        options.cluster.gpus[0] if options.cluster.gpus else None,
    )
    augmentation = augmentation_arguments(
        options.augmentation, options.data.pad_size, options.data.fill_value
    )
    training = RecordTraining(
        reader, found.train, rank, ranks, options.cluster.seed, accumulation_steps, augmentation
    )
    validation = None
    if found.validation is not None and found.validation.images:
        validation = RecordValidation(reader, found.validation, inputs.resize)
    if found.dataset is None:
        return Data(training, validation, inputs, (), options.model.num_classes, None)
    classes, words = found.dataset.classes, found.dataset.class_words
    return Data(training, validation, inputs, classes, len(classes), found.dataset.key, words)


def _ordered(options: Options, rank: int, ranks: int, accumulation_steps: int) -> Data:
    def layout(inputs: Inputs) -> Normalized:
        return Normalized(inputs.mean, inputs.std, channels_first=True)

    return open_ordered(options, rank, ranks, accumulation_steps, layout, _to_arrays)


def _to_arrays(batch: ImageBatch) -> Batch:
    # Copies, complete when they are returned: what computes with them runs later.
    return Batch(mx.nd.array(batch.images), mx.nd.array(batch.labels), batch.count)


def _find(options: Options, scratch: Path) -> _Found:
    train_index, validation_index = scratch / "train.idx", scratch / "validation.idx"
    data = options.data
    if data.dataset is not None:
        dataset = read_dataset(data.dataset)
        require_whole(dataset, data.dataset)
        return _Found(
            of_split(dataset.train, dataset.format, data.dataset, train_index),
            of_split(dataset.validation, dataset.format, data.dataset, validation_index),
            dataset,
        )
    if not data.data_train:
        raise InputError("no data: write --dataset FOLDER, --data-train FILE.rec or --benchmark 1")
    validation = None
    if data.data_val:
        validation = of_paths(data.data_val, data.data_val_idx, validation_index)
    return _Found(of_paths(data.data_train, data.data_train_idx, train_index), validation)
