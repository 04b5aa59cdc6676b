"""Opens the training and validation data of the command line for MXNet. Imports MXNet."""

import weakref
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from numpy.typing import NDArray

from imagenet_spec.program.train import Options
from imagenet_workloads.data.batches import ImageBatch
from imagenet_workloads.data.inputs import Inputs, choose_inputs
from imagenet_workloads.data.layouts import Normalized
from imagenet_workloads.data.ordered_data import decoding_cores, open_ordered
from imagenet_workloads.data.reader import is_ordered
from imagenet_workloads.data.synthetic_data import open_synthetic
from imagenet_workloads.data.worker_data import Data
from imagenet_workloads.dataset import Dataset, read_dataset, require_whole
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.record_files import RecordFiles, of_paths, of_split
from imagenet_workloads.frameworks.mxnet.records import (
    Reader,
    RecordTraining,
    RecordValidation,
    augmentation_arguments,
)
from imagenet_workloads.records.split import Records, open_paths, open_split


@dataclass(frozen=True)
class _Found:
    train: RecordFiles
    validation: RecordFiles | None
    dataset: Dataset | None = None


def choose(options: Options, rank: int, ranks: int, accumulation_steps: int, scratch: Path) -> Data:
    """Open the data; `accumulation_steps` batches make one update. Index files go to `scratch`."""
    if options.data.benchmark:
        return open_synthetic(
            options, rank, ranks, accumulation_steps, Copies(), channels_first=True
        )
    if is_ordered(options):

        def layout(inputs: Inputs) -> Normalized:
            return Normalized(inputs.mean, inputs.std, channels_first=True)

        return open_ordered(options, rank, ranks, accumulation_steps, layout, Copies())
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
    named, dataset = options.data, found.dataset
    if dataset is None:

        def open_named() -> Records:
            return open_paths(named.data_val or "", named.data_val_idx)

        classes = options.model.num_classes
        return Data(training, validation, inputs, (), classes, None, validation_records=open_named)
    folder = named.dataset
    assert folder is not None
    return Data(
        training,
        validation,
        inputs,
        dataset.classes,
        len(dataset.classes),
        dataset.key,
        dataset.class_words,
        dataset=dataset,
        validation_records=lambda: open_split(dataset.validation, dataset.format, folder),
    )


class Copies:
    """Copies of batches: MXNet computes with them later, when the slots have other images.

    Their memory is used again once MXNet has let it go: new memory would cost as much as half of
    the decoding, as each of its pages has to be found and cleared.
    """

    def __init__(self) -> None:
        self._free: deque[NDArray[Any]] = deque()

    def __call__(self, batch: ImageBatch) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
        images = batch.images
        memory = self._free.popleft() if self._free else np.empty_like(images)
        np.copyto(memory, images)
        # MXNet refers to it until it has computed, also if the program does not any more.
        lent = memory[:]
        weakref.finalize(lent, self._free.append, memory).atexit = False
        return mx.nd.from_numpy(lent), mx.nd.array(batch.labels)


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
