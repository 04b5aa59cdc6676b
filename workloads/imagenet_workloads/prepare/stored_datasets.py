"""Prepared datasets where they are kept: in folders of a volume, or below prefixes of a bucket.

`imagenet-dataset` lists, describes, verifies and deletes them. A location is a `Path` or a
`BucketFolder`, and a dataset's own location holds its dataset.json.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from imagenet_workloads.clients.folders import BucketFolder, RemoteFolder
from imagenet_workloads.dataset import FILE_NAME, Dataset, Shard, read_dataset
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.prepare import fetch_published, seal
from imagenet_workloads.records import record_sums
from imagenet_workloads.records.remote import open_remote_split, read_remote_dataset
from imagenet_workloads.records.split import read_index

Location = Path | RemoteFolder

_NAMED = 10


def read(location: Location) -> Dataset:
    """Read a dataset.json.

    Raises:
        InputError: There is none, or it is wrong.
    """
    return read_dataset(location) if isinstance(location, Path) else read_remote_dataset(location)


def find(location: Path | BucketFolder) -> Iterator[tuple[str, Dataset]]:
    """Yield the address and the description of each dataset at a location or directly below it.

    A volume has them in `datasets/KEY`. Damaged descriptions are left out.

    Raises:
        InputError: The location cannot be read.
    """
    if isinstance(location, Path):
        if not location.is_dir():
            raise InputError(f"{location}: is no folder; give a volume, or a folder of datasets")
        for pattern in ("", "*/", "datasets/*/"):
            for file in sorted(location.glob(f"{pattern}{FILE_NAME}")):
                with suppress(InputError):
                    yield str(file.parent), read_dataset(file.parent)
        return
    below, _ = location.bucket.folders(location.prefix)
    for prefix in (location.prefix, *below):
        folder = BucketFolder(location.bucket, prefix)
        with suppress(InputError):
            yield folder.where("").rstrip("/"), read_remote_dataset(folder)


def describe(address: str, sealed: Dataset) -> dict[str, Any]:
    """Return what a dataset holds, as JSON values."""
    shards = [*sealed.train.shards, *sealed.validation.shards]
    return {
        "address": address,
        "key": sealed.key,
        "format": sealed.format,
        "classes": len(sealed.classes),
        "images": {"train": sealed.train.images, "validation": sealed.validation.images},
        "skipped": sealed.skipped.count,
        "shards": len(shards),
        "bytes": sum(shard.bytes for shard in shards),
        "options": json.loads(json.dumps(dict(sealed.options))),
    }


def verify(location: Location, threads: int) -> None:
    """Read every byte of a dataset and compare all checksums.

    Raises:
        InputError: Files are damaged; names them.
        WorkloadError: The server cannot be reached.
    """
    if isinstance(location, Path):
        seal.verify_folder(location, threads)
        return
    sealed = read_remote_dataset(location)
    for split in (sealed.train, sealed.validation):
        open_remote_split(split, sealed.format, location)
    shards = [*sealed.train.shards, *sealed.validation.shards]
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = list(pool.map(lambda shard: _damage(location, shard), shards))
    damaged = [what for what in found if what]
    if damaged:
        named = "; ".join(damaged[:_NAMED])
        raise InputError(f"{len(damaged)} of {len(shards)} shards are damaged: {named}")


def _damage(location: RemoteFolder, shard: Shard) -> str:
    try:
        for _ in fetch_published.blocks(location, shard):
            pass
        if shard.index is not None:
            _require_index(location, shard, shard.index)
    except InputError as error:
        return str(error)
    return ""


def _require_index(location: RemoteFolder, shard: Shard, index: str) -> None:
    """Compare an index with the sums of its shard.

    Raises:
        InputError: They differ, or there is no index.
    """
    sums = record_sums.decode(location.read_whole(shard.record + record_sums.SUFFIX), shard)
    try:
        is_right = np.array_equal(read_index(index, location.read_whole(index)), sums.edges[:-1])
    except ValueError:
        is_right = False
    if not is_right:
        raise InputError(
            f"{location.where(index)}: its offsets are wrong: the index is damaged; delete the "
            "dataset there, and publish it again"
        )


def delete(location: Path | BucketFolder) -> int:
    """Delete the files of a dataset, dataset.json first; return how many they were.

    Files that do not belong to the dataset stay.

    Raises:
        InputError: There is no dataset.
        StorageError: A file cannot be deleted.
        WorkloadError: The server cannot be reached.
    """
    names = _files(read(location))
    if not isinstance(location, Path):
        for name in names:
            location.bucket.delete(location.key(name))
        return len(names)
    count = 0
    for name in names:
        try:
            (location / name).unlink()
            count += 1
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"cannot delete {location / name}: {error.strerror}") from error
    with suppress(OSError):
        location.rmdir()
    return count


def _files(sealed: Dataset) -> list[str]:
    """Return the names of all files that a dataset may have, dataset.json first."""
    found = [FILE_NAME]
    for shard in (*sealed.train.shards, *sealed.validation.shards):
        sidecar = Path(shard.record).with_suffix(".json").name
        found += [shard.record, sidecar, shard.record + record_sums.SUFFIX]
        found += [] if shard.index is None else [shard.index]
    return [*found, *sealed.other_files]
