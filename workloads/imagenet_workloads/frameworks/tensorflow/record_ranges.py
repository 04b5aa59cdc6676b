"""Which records of which files a rank reads; pure, and a look at lengths where nobody tells them.

A TFRecord file has no index. So a rank's part is a range of the files' records one after the other,
as MXNet's is: whole files, and ranges of the first and the last.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.dataset import Split
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.sharding import share

# A record: its length and that one's checksum, the data, its checksum.
_LENGTH, _AROUND = struct.Struct("<Q"), 16


@dataclass(frozen=True)
class RecordFile:
    """One TFRecord file, with its number of records and its bytes."""

    path: Path
    records: int
    bytes: int


@dataclass(frozen=True)
class RecordRange:
    """`take` records of a file, after `skip` others."""

    path: Path
    skip: int
    take: int


def of_split(split: Split, folder: Path) -> tuple[RecordFile, ...]:
    """Give the files that dataset.json names.

    Raises:
        InputError: one is missing, or has another length than dataset.json says.
    """
    found = []
    for shard in split.shards:
        path = folder / shard.record
        size = path.stat().st_size if path.exists() else None
        if size != shard.bytes:
            raise InputError(
                f"{path}: has {size} bytes, dataset.json says {shard.bytes}; prepare it again"
                if size is not None
                else f"{path}: no such file, though dataset.json names it"
            )
        found.append(RecordFile(path, shard.records, shard.bytes))
    return tuple(found)


def of_paths(paths: str) -> tuple[RecordFile, ...]:
    """Count the records of files named on the command line, `a.tfrecord;b.tfrecord`.

    Raises:
        InputError: a file is missing or not TFRecord.
    """
    return tuple(_counted(Path(name)) for name in paths.split(";") if name)


def of_rank(files: Sequence[RecordFile], rank: int, ranks: int) -> list[RecordRange]:
    """Give a rank's part; every record is in exactly one rank's."""
    images = sum(file.records for file in files)
    begin = sum(share(images, earlier, ranks) for earlier in range(rank))
    end = begin + share(images, rank, ranks)
    ranges, first = [], 0
    for file in files:
        skip, stop = max(begin - first, 0), min(end - first, file.records)
        if skip < stop:
            ranges.append(RecordRange(file.path, skip, stop - skip))
        first += file.records
    return ranges


def _counted(path: Path) -> RecordFile:
    records = 0
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            while header := file.read(_LENGTH.size):
                (length,) = _LENGTH.unpack(header)
                if length > size or file.seek(length + _AROUND - _LENGTH.size, 1) > size:
                    raise InputError(f"{path}: is not TFRecord, or cut off at record {records}")
                records += 1
    except (OSError, struct.error) as error:
        raise InputError(f"{path}: cannot be read as TFRecord: {error}") from error
    return RecordFile(path, records, size)
