"""Opens a published dataset for one worker, and its cache for the lanes that the worker reads.

If n divides the number of lanes, worker w of n has the same lanes in every epoch (`data.order`).
Its cache then holds 1/n of the training images, and its own validation images.
"""

from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.clients.folders import open_folder
from imagenet_workloads.data.batches import validation_share
from imagenet_workloads.data.order import Order
from imagenet_workloads.dataset import Dataset
from imagenet_workloads.errors import output_error
from imagenet_workloads.records.cache import require_room
from imagenet_workloads.records.remote import (
    RemoteRecords,
    open_remote_split,
    read_remote_dataset,
)
from imagenet_workloads.train.options.groups import DataOptions


@dataclass(frozen=True)
class RemoteDataset:
    """A published dataset.

    Attributes:
        dataset: its dataset.json.
        train: the training images.
        validation: the validation images.
    """

    dataset: Dataset
    train: RemoteRecords
    validation: RemoteRecords


def open_remote_dataset(data: DataOptions, seed: int, rank: int, ranks: int) -> RemoteDataset:
    """Open the dataset of `--dataset-url`.

    Args:
        data: the command line.
        seed: of the training.
        rank: this worker's.
        ranks: the number of workers.

    Raises:
        InputError: there is no published dataset, or the cache is too small.
        WorkloadError: the server cannot be reached, or the cache cannot be used.
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
        cache = _folder(data.cache, rank)
        free = files.free_bytes(cache)
        limit = free if data.cache_size is None else min(free, data.cache_size)
        require_room(
            sum(map(train.block_size, trained)) + sum(map(validation.block_size, validated)), limit
        )
        train.keep(cache / "train", trained)
        validation.keep(cache / "validation", validated)
    return RemoteDataset(dataset, train, validation)


def _folder(cache: Path, rank: int) -> Path:
    """Return the folder of one process: several may share a pod."""
    folder = cache / f"rank-{rank}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(f"cannot make the cache {folder}", error) from error
    return folder
