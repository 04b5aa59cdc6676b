"""Copies a published dataset from a bucket or a server to a folder.

Each shard is written under a temporary name, compared with its SHA-256 and renamed; dataset.json
comes last. A copy that was cut off continues with the first shard that is missing.
"""

import hashlib
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.clients.folders import RemoteFolder
from imagenet_workloads.dataset import FILE_NAME, Shard
from imagenet_workloads.errors import InputError
from imagenet_workloads.records.remote import read_remote_dataset

# Of a request.
_BLOCK = 8 << 20

_log = logging.getLogger(__name__)


def run(source: RemoteFolder, target: Path, threads: int) -> int:
    """Copy what is missing of a dataset; return the bytes that were fetched.

    Args:
        source: The published dataset.
        target: The folder, which is made.
        threads: The number of shards to fetch at the same time.

    Raises:
        InputError: There is no dataset, or an object is damaged.
        StorageError: The folder cannot be written.
        WorkloadError: The server cannot be reached.
    """
    sealed = read_remote_dataset(source)
    files.make_folder(target)
    shards = [*sealed.train.shards, *sealed.validation.shards]
    with ThreadPoolExecutor(threads, thread_name_prefix="fetch") as pool:
        jobs = [pool.submit(_fetch_shard, source, target, shard) for shard in shards]
        try:
            fetched = sum(job.result() for job in jobs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    fetched += sum(_fetch_file(source, target, name) for name in sealed.other_files)
    return fetched + _fetch_file(source, target, FILE_NAME)


def blocks(source: RemoteFolder, shard: Shard) -> Iterator[bytes]:
    """Yield the bytes of a shard.

    Raises:
        InputError: They differ from the shard's SHA-256, which is known after the last block.
        WorkloadError: The server cannot be reached.
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
    if shard.index is not None and not (is_there and (target / shard.index).is_file()):
        fetched += _fetch_file(source, target, shard.index)
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
