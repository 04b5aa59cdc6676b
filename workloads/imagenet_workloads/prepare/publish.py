"""`imagenet-publish`: uploads a sealed dataset to a bucket, from where training reads it.

The objects of a shard are its records, its index and its sidecar, and last `SHARD.sums`, which says
that the others are there. dataset.json comes after all shards. So an upload that was cut off
continues with the first shard that lacks its sums, and a reader never sees half a dataset.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.clients.folders import BucketFolder
from imagenet_workloads.clients.s3 import NoObjectError
from imagenet_workloads.dataset import FILE_NAME, Dataset, Shard, Split, damaged, read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.records import record_sums
from imagenet_workloads.records.split import Records, open_split

# A read from the volume, of whole records, and thus a piece of an upload.
_READ_BYTES = 1 << 20

_log = logging.getLogger(__name__)


def run(dataset: Path, target: BucketFolder, threads: int) -> int:
    """Upload what is missing of a dataset; return the bytes that were uploaded.

    Args:
        dataset: The folder of dataset.json.
        target: The folder in the bucket.
        threads: The number of shards to upload at the same time.

    Raises:
        InputError: The dataset is damaged, the bucket holds another one, or refuses.
        WorkloadError: The bucket cannot be reached.
    """
    sealed = read_dataset(dataset)
    if _is_published(sealed, target):
        _log.info("%s is already published", target.where(FILE_NAME))
        return 0
    shards = [*sealed.train.shards, *sealed.validation.shards]
    with ThreadPoolExecutor(threads, thread_name_prefix="publish") as pool:
        jobs = [
            pool.submit(_upload_shard, dataset, sealed.format, shard, target) for shard in shards
        ]
        try:
            uploaded = sum(job.result() for job in jobs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    uploaded += sum(_upload_file(dataset / name, target) for name in sealed.other_files)
    return uploaded + _upload_file(dataset / FILE_NAME, target)


def _is_published(sealed: Dataset, target: BucketFolder) -> bool:
    """Whether the target has this dataset.

    Raises:
        InputError: It has another one.
    """
    try:
        text = target.read_whole(FILE_NAME)
    except NoObjectError:
        return False
    there = Dataset.from_json(text.decode(), target.where(FILE_NAME))
    # An older version has published TFRecord without indexes, which training does not need there.
    if there.without_indexes() != sealed.without_indexes():
        raise InputError(
            f"{target.where(FILE_NAME)}: is another dataset, with the key {there.key[:12]}; write "
            "another prefix, or delete it with imagenetctl dataset delete"
        )
    return True


def _upload_shard(dataset: Path, format: str, shard: Shard, target: BucketFolder) -> int:
    """Upload a shard unless it is there; return the bytes that were uploaded."""
    name = shard.record + record_sums.SUFFIX
    with suppress(NoObjectError, ValueError):
        record_sums.decode(target.read_whole(name), shard)
        if _is_there(shard, target):
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
    for beside in (shard.index, sidecar):
        if beside is not None and files.exists(dataset / beside):
            uploaded += _upload_file(dataset / beside, target)
    content = record_sums.encode(lengths, sums, shard)
    target.bucket.write(target.key(name), content)
    _log.info("%s is published", shard.record)
    return uploaded + len(content)


def _is_there(shard: Shard, target: BucketFolder) -> bool:
    """Whether the bucket has a shard's records and index; older versions uploaded no index."""
    if target.bucket.size_of(target.key(shard.record)) != shard.bytes:
        return False
    return shard.index is None or target.bucket.size_of(target.key(shard.index)) is not None


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
