"""Finds the data that the command line names, and how its images become network inputs."""

from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.data.interface import TrainingData, ValidationData
from imagenet_workloads.train.data.made_up import MadeUp
from imagenet_workloads.train.data.record_files import RecordFiles, of_paths, of_split
from imagenet_workloads.train.data.records import (
    Reader,
    RecordTraining,
    RecordValidation,
    augmentation_arguments,
)
from imagenet_workloads.train.options import Options

IMAGENET_MEAN = (123.68, 116.779, 103.939)
# From this edge on, validation crops 7/8 of the image, as is usual for 224 of 256 pixels.
CROPPED_EDGE = 64


@dataclass(frozen=True)
class Inputs:
    """How an image becomes what the network sees; result.json tells it to `imagenet-predict`.

    Attributes:
        image_shape: channels, height, width.
        mean: red, green, blue in 0..255, subtracted.
        std: likewise, divides.
        resize: shorter edge in pixels before the central crop; 0 is as it comes.
    """

    image_shape: tuple[int, int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: int


@dataclass(frozen=True)
class Data:
    """What a worker trains on.

    Attributes:
        training: the images.
        validation: None where there are none.
        inputs: how they are prepared.
        classes: their names by label; empty where nobody says.
        class_count: how many there are.
        key: the dataset's; None without one.
    """

    training: TrainingData
    validation: ValidationData | None
    inputs: Inputs
    classes: tuple[str, ...]
    class_count: int
    key: str | None


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
    inputs = _inputs(options, found)
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


def _inputs(options: Options, found: _Found) -> Inputs:
    edge = min(options.model.image_shape[1:])
    resize = options.data.validation_resize
    if resize is None:
        resize = round(edge * 8 / 7) if edge >= CROPPED_EDGE else 0
    return Inputs(
        options.model.image_shape,
        options.data.rgb_mean or found.mean,
        options.data.rgb_std or found.std,
        resize,
    )


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
    inputs = Inputs(options.model.image_shape, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0)
    return Data(training, None, inputs, (), options.model.num_classes, None)
