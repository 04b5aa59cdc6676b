"""Joins the shards of a split under one index for ImageRecordIter.

ImageRecordIter takes several .rec files but one .idx. The index here counts offsets over all of
them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.dataset import RECORD_IO, Dataset, Shard, Split, damaged, files_named
from imagenet_workloads.errors import InputError
from imagenet_workloads.records import recordio


@dataclass(frozen=True)
class RecordFiles:
    """The .rec files of a split, and one index over all of its images."""

    records: tuple[Path, ...]
    index: Path
    images: int


def of_split(split: Split, format: str, folder: Path, index: Path) -> RecordFiles:
    """Join the shards that dataset.json names; writes `index`.

    InputError: a file is missing, an index does not hold what dataset.json says, or the records
    are TFRecord.
    """
    joined = join([_pair(shard, format, folder) for shard in split.shards], index)
    if joined.images != split.images:
        raise InputError(
            f"{folder}: the index files hold {joined.images} records, dataset.json says "
            f"{split.images}; prepare the dataset again"
        )
    return joined


def require_records(dataset: Dataset, folder: Path) -> None:
    """Walk over the headers of all records without reading the images.

    InputError: a shard's records are not where its index says.
    """
    for shard in (*dataset.train.shards, *dataset.validation.shards):
        record, index = _pair(shard, dataset.format, folder)
        try:
            listed, there = list(_offsets(record, index)), list(_scan(record))
        except (OSError, ValueError) as error:
            raise damaged(record, str(error)) from error
        if sorted(listed) != there:
            raise damaged(record, f"its records are not where {index.name} says")


def _pair(shard: Shard, format: str, folder: Path) -> tuple[Path, Path]:
    if format != RECORD_IO or shard.index is None:
        raise InputError(
            f"{folder}: the dataset is TFRecord, and MXNet reads RecordIO; prepare it with "
            "--format RecordIO (preprocessing.format), or train with TensorFlow"
        )
    return folder / shard.record, folder / shard.index


def of_paths(records: str, indexes: str, index: Path) -> RecordFiles:
    """Join files named on the command line, `a.rec;b.rec`; writes `index`.

    Without `indexes`, the .idx beside each .rec is used; if there is none, the headers of the
    records are read. InputError: a file is missing, or there are more or fewer indexes than
    records.
    """
    names = files_named(records)
    beside = [Path(name) for name in indexes.split(";") if name]
    if not beside:
        beside = [name.with_suffix(".idx") for name in names]
    if len(names) != len(beside):
        raise InputError(f"{len(names)} record files, but {len(beside)} index files: {indexes}")
    return join(list(zip(names, beside, strict=True)), index)


def join(files: Sequence[tuple[Path, Path]], index: Path) -> RecordFiles:
    """Join pairs of .rec and .idx; a missing .idx is replaced by the headers of the .rec.

    InputError: a file is missing or not RecordIO.
    """
    base = images = 0
    with index.open("w") as joined:
        for record, beside in files:
            try:
                size = record.stat().st_size
                for offset in _offsets(record, beside):
                    joined.write(f"{images}\t{base + offset}\n")
                    images += 1
            except (OSError, ValueError) as error:
                raise InputError(f"{record}: cannot be read as RecordIO: {error}") from error
            base += size
    return RecordFiles(tuple(record for record, _ in files), index, images)


def _offsets(record: Path, index: Path) -> Iterator[int]:
    if not index.exists():
        yield from _scan(record)
        return
    with index.open() as lines:
        for number, line in enumerate(lines, start=1):
            _, _, offset = line.partition("\t")
            if not offset.strip().isdecimal():
                raise ValueError(f"{index.name}:{number} is not KEY<TAB>OFFSET")
            yield int(offset)


def _scan(record: Path) -> Iterator[int]:
    with record.open("rb", buffering=0) as file:
        yield from recordio.offsets(file)
