"""Finds the data that the command line names, as MXNet reads it."""

from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.data.inputs import IMAGENET_MEAN, choose_inputs, plain_inputs
from imagenet_workloads.train.data.interface import Data
from imagenet_workloads.train.data.made_up import MadeUp
from imagenet_workloads.train.data.record_files import RecordFiles, of_paths, of_split
from imagenet_workloads.train.data.records import (
    Reader,
    RecordTraining,
    RecordValidation,
    augmentation_arguments,
)
from imagenet_workloads.train.options import Options


@dataclass(frozen=True)
class _Found:
    train: RecordFiles
    validation: RecordFiles | None
    classes: tuple[str, ...] = ()
    key: str | None = None
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)


def choose(options: Options, rank: int, ranks: int, together: int, scratch: Path) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: of this worker.
        ranks: how many workers.
        together: batches that make one update.
        scratch: a folder for index files.

    Raises:
        InputError: no data is named, or it cannot be read.
    """
    if options.data.benchmark:
        return _made_up(options, rank, ranks, together)
    found = _find(options, scratch)
    inputs = choose_inputs(options, found.mean, found.std)
    reader = Reader(
        inputs.image_shape,
        options.optimizer.batch_size,
        inputs.mean,
        inputs.std,
        options.data.data_nthreads,
        options.cluster.gpus[0] if options.cluster.gpus else None,
    )
    augmentation = augmentation_arguments(
        options.augmentation, options.data.pad_size, options.data.fill_value
    )
    training = RecordTraining(
        reader, found.train, rank, ranks, options.cluster.seed, together, augmentation
    )
    validation = None
    if found.validation is not None and found.validation.images:
        validation = RecordValidation(reader, found.validation, inputs.resize)
    count = len(found.classes) or options.model.num_classes
    return Data(training, validation, inputs, found.classes, count, found.key)


def _find(options: Options, scratch: Path) -> _Found:
    train_index, validation_index = scratch / "train.idx", scratch / "validation.idx"
    data = options.data
    if data.dataset is not None:
        dataset = read_dataset(data.dataset)
        return _Found(
            of_split(dataset.train, data.dataset, train_index),
            of_split(dataset.validation, data.dataset, validation_index),
            dataset.classes,
            dataset.key,
            dataset.mean,
            dataset.std,
        )
    if not data.data_train:
        raise InputError("no data: write --dataset FOLDER, --data-train FILE.rec or --benchmark 1")
    validation = None
    if data.data_val:
        validation = of_paths(data.data_val, data.data_val_idx, validation_index)
    return _Found(of_paths(data.data_train, data.data_train_idx, train_index), validation)


def _made_up(options: Options, rank: int, ranks: int, together: int) -> Data:
    training = MadeUp(
        options.model.image_shape,
        options.model.num_classes,
        options.optimizer.batch_size,
        options.data.num_examples,
        rank,
        ranks,
        together,
        options.cluster.seed,
    )
    inputs = plain_inputs(options.model.image_shape)
    return Data(training, None, inputs, (), options.model.num_classes, None)
