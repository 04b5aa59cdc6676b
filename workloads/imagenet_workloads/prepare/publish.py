"""Published datasets: `imagenet-publish` uploads one to a bucket, from where training reads it.

The objects of a shard are its records, its index, the list of its images and its sidecar, and last
`SHARD.sums`, which says that the others are there. dataset.json comes after all shards. So an
upload that was cut off continues with the first shard that lacks its sums, and a reader never sees
half a dataset. A copy to a folder is made in the same order, each shard compared with its SHA-256
and renamed.

`imagenet-dataset` lists, describes, verifies and deletes datasets where they are kept: in folders
of a volume, or below prefixes of a bucket. A location is a `Path` or a `BucketFolder`.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from imagenet_workloads import files
from imagenet_workloads.clients.folders import BucketFolder, RemoteFolder
from imagenet_workloads.clients.s3 import NoObjectError
from imagenet_workloads.dataset import FILE_NAME, Dataset, Shard, Split, damaged, read_dataset
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.prepare import seal
from imagenet_workloads.prepare.stores.blob import map_in_order
from imagenet_workloads.records import record_sums
from imagenet_workloads.records.remote import open_remote_split, read_remote_dataset
from imagenet_workloads.records.split import Records, open_split, read_index

# A read from the volume, of whole records, and thus a piece of an upload.
_READ_BYTES = 1 << 20
# Of a request.
_BLOCK = 8 << 20
_NAMED = 10

Location = Path | RemoteFolder

_log = logging.getLogger(__name__)


def run(dataset: Path, target: BucketFolder, threads: int) -> int:
    """Upload what is missing of a dataset; return the bytes that were uploaded.

    Raises:
        InputError: The dataset is damaged, the bucket holds another one, or refuses.
    """
    sealed = read_dataset(dataset)
    if _is_published(sealed, target):
        _log.info("%s is already published", target.where(FILE_NAME))
        return 0
    upload = partial(_upload_shard, dataset, sealed.format, target)
    uploaded = sum(map_in_order(upload, sealed.shards, threads))
    uploaded += sum(_upload_file(dataset / name, target) for name in sealed.other_files)
    return uploaded + _upload_file(dataset / FILE_NAME, target)


def _is_published(sealed: Dataset, target: BucketFolder) -> bool:
    """Whether the target has this dataset; another one is an error."""
    try:
        text = target.read_whole(FILE_NAME)
    except NoObjectError:
        return False
    there = Dataset.from_json(text.decode(), target.where(FILE_NAME))
    # An older version has published fewer files, and training needs none of the others there.
    if there.without_additions() != sealed.without_additions():
        raise InputError(
            f"{target.where(FILE_NAME)}: is another dataset, with the key {there.key[:12]}; write "
            "another prefix, or delete it with imagenetctl dataset delete"
        )
    return True


def _upload_shard(dataset: Path, format: str, target: BucketFolder, shard: Shard) -> int:
    """Upload a shard unless it is there; return the bytes that were uploaded."""
    name = shard.record + record_sums.SUFFIX
    with suppress(NoObjectError, ValueError):
        record_sums.decode(target.read_whole(name), shard)
        # Older versions uploaded no index, and no list of images.
        if target.bucket.size_of(target.key(shard.record)) == shard.bytes and all(
            target.bucket.size_of(target.key(name)) is not None for name in shard.beside
        ):
            return 0
    records = open_split(Split(shard.records, (shard,)), format, dataset)
    lengths: list[int] = []
    sums: list[int] = []
    digest = hashlib.sha256()
    try:
        target.bucket.write(
            target.key(shard.record), _pieces(records, lengths, sums, digest.update)
        )
    finally:
        records.close()
    if digest.hexdigest() != shard.sha256:
        target.bucket.delete(target.key(shard.record))
        raise damaged(dataset / shard.record, "its checksum is wrong")
    uploaded = shard.bytes
    sidecar = Path(shard.record).with_suffix(".json").name
    for beside in (*shard.beside, sidecar):
        if files.exists(dataset / beside):
            uploaded += _upload_file(dataset / beside, target)
    content = record_sums.encode(lengths, sums, shard)
    target.bucket.write(target.key(name), content)
    _log.info("%s is published", shard.record)
    return uploaded + len(content)


def _pieces(
    records: Records,
    lengths: list[int],
    sums: list[int],
    update: Callable[[bytes], None],
) -> Iterator[bytes]:
    """Yield the bytes of a shard, and note the length and the checksum of each record."""
    first = 0
    while first < records.count:
        stop, size = first, 0
        while stop < records.count and size < _READ_BYTES:
            size += records.size([stop])
            stop += 1
        found = records.read(range(first, stop))
        lengths += map(len, found)
        sums += map(record_sums.checksum, found)
        piece = b"".join(found)
        update(piece)
        yield piece
        first = stop


def _upload_file(path: Path, target: BucketFolder) -> int:
    content = files.read_bytes(path)
    target.bucket.write(target.key(path.name), content)
    return len(content)


def read(location: Location) -> Dataset:
    """Read a dataset.json."""
    return read_dataset(location) if isinstance(location, Path) else read_remote_dataset(location)


def find(location: Path | BucketFolder) -> Iterator[tuple[str, Dataset]]:
    """Yield the address and the description of each dataset at a location or directly below it.

    A volume has them in `datasets/KEY`. Damaged descriptions are left out.
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
    """What a dataset holds, as JSON values."""
    return {
        "address": address,
        "key": sealed.key,
        "format": sealed.format,
        "classes": len(sealed.classes),
        "images": {"train": sealed.train.images, "validation": sealed.validation.images},
        "skipped": sealed.skipped.count,
        "shards": len(sealed.shards),
        "bytes": sum(shard.bytes for shard in sealed.shards),
        "options": json.loads(json.dumps(dict(sealed.options))),
    }


def verify(location: Location, threads: int) -> None:
    """Read every byte of a dataset and compare all checksums.

    Raises:
        InputError: Files are damaged; names them.
    """
    if isinstance(location, Path):
        seal.verify_folder(location, threads)
        return
    sealed = read_remote_dataset(location)
    for split in (sealed.train, sealed.validation):
        open_remote_split(split, sealed.format, location)

    def damage(shard: Shard) -> str:
        try:
            for _ in blocks(location, shard):
                pass
            if shard.index is not None:
                _require_index(location, shard, shard.index)
        except InputError as error:
            return str(error)
        return ""

    found = [what for what in map_in_order(damage, sealed.shards, threads) if what]
    if found:
        named = "; ".join(found[:_NAMED])
        raise InputError(f"{len(found)} of {len(sealed.shards)} shards are damaged: {named}")


def _require_index(location: RemoteFolder, shard: Shard, index: str) -> None:
    """Compare an index with the sums of its shard."""
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
    """
    sealed = read(location)
    names = [FILE_NAME]
    for shard in sealed.shards:
        sidecar = Path(shard.record).with_suffix(".json").name
        names += [shard.record, sidecar, shard.record + record_sums.SUFFIX, *shard.beside]
    names += sealed.other_files
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


def fetch(source: RemoteFolder, target: Path, threads: int) -> int:
    """Copy what is missing of a dataset into a folder; return the bytes that were fetched.

    Raises:
        InputError: There is no dataset, or an object is damaged.
    """
    sealed = read_remote_dataset(source)
    files.make_folder(target)
    fetched = sum(map_in_order(partial(_fetch_shard, source, target), sealed.shards, threads))
    fetched += sum(_fetch_file(source, target, name) for name in sealed.other_files)
    return fetched + _fetch_file(source, target, FILE_NAME)


def blocks(source: RemoteFolder, shard: Shard) -> Iterator[bytes]:
    """Yield the bytes of a shard.

    Raises:
        InputError: They differ from the shard's SHA-256, which is known after the last block.
    """
    digest = hashlib.sha256()
    for begin in range(0, shard.bytes, _BLOCK):
        block = source.read(shard.record, begin, min(_BLOCK, shard.bytes - begin))
        digest.update(block)
        yield block
    if digest.hexdigest() != shard.sha256:
        raise InputError(
            f"{source.where(shard.record)}: its checksum is wrong: the file is damaged; publish "
            "the dataset again"
        )


def _fetch_shard(source: RemoteFolder, target: Path, shard: Shard) -> int:
    path, fetched = target / shard.record, 0
    is_there = path.is_file() and path.stat().st_size == shard.bytes
    for name in shard.beside:
        if not (is_there and (target / name).is_file()):
            fetched += _fetch_file(source, target, name)
    if is_there:
        return fetched
    # Training does not need the sidecar.
    with suppress(InputError):
        fetched += _fetch_file(source, target, path.with_suffix(".json").name)
    files.write_chunks(path, blocks(source, shard))
    _log.info("%s is fetched", shard.record)
    return fetched + shard.bytes


def _fetch_file(source: RemoteFolder, target: Path, name: str) -> int:
    content = source.read_whole(name)
    files.write_file(target / name, content)
    return len(content)
