"""Finds the data that the command line names, as TensorFlow reads it."""

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.data.inputs import Inputs, choose_inputs, plain_inputs
from imagenet_workloads.train.data.interface import Data
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.tensorflow.data import pieces
from imagenet_workloads.train.tensorflow.data.made_up import MadeUp
from imagenet_workloads.train.tensorflow.data.records import RecordTraining, RecordValidation


def choose(options: Options, rank: int, ranks: int, together: int) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: of this worker.
        ranks: how many workers.
        together: batches that make one update.

    Raises:
        InputError: no data is named, or it cannot be read.
    """
    classes, data = options.model.num_classes, options.data
    if data.benchmark:
        made_up = MadeUp(options, rank, ranks, together)
        return Data(made_up, None, plain_inputs(options.model.image_shape), (), classes, None)
    if data.dataset is not None:
        return _dataset(options, rank, ranks, together)
    if not data.data_train:
        raise InputError(
            "no data: write --dataset FOLDER, --data-train FILE.tfrecord or --benchmark 1"
        )
    inputs = choose_inputs(options)
    training = RecordTraining(
        options, inputs, pieces.of_paths(data.data_train), rank, ranks, together
    )
    validation = _validation(options, inputs, pieces.of_paths(data.data_val or ""))
    return Data(training, validation, inputs, (), classes, None)


def _dataset(options: Options, rank: int, ranks: int, together: int) -> Data:
    folder = options.data.dataset
    assert folder is not None
    found = read_dataset(folder)
    if found.format != "TFRecord":
        raise InputError(
            f"{folder}: its records are {found.format}, and TensorFlow reads TFRecord; prepare it "
            "with --format TFRecord, or write --framework MXNet"
        )
    inputs = choose_inputs(options, found.mean, found.std)
    files = pieces.of_split(found.train, folder)
    training = RecordTraining(options, inputs, files, rank, ranks, together)
    validation = _validation(options, inputs, pieces.of_split(found.validation, folder))
    return Data(training, validation, inputs, found.classes, len(found.classes), found.key)


def _validation(
    options: Options, inputs: Inputs, files: tuple[pieces.File, ...]
) -> RecordValidation | None:
    found = RecordValidation(options, inputs, files)
    return found if found.images else None
