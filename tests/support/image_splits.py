"""Splits of records in both formats, written by the preparation's own writers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from imagenet_workloads.dataset import RECORD_IO, TF_RECORD, Shard, Split
from imagenet_workloads.records import recordio, tfrecord
from imagenet_workloads.records.split import Records, open_split
from support.stored_images import stored_image

FORMATS = (RECORD_IO, TF_RECORD)
_WRITERS = {
    RECORD_IO: (".rec", recordio.FORMAT.writer),
    TF_RECORD: (".tfrecord", tfrecord.FORMAT.writer),
}


def write_split(folder: Path, format: str, images: Sequence[bytes], shards: int = 1) -> Split:
    """Write encoded images in shards of about the same length; labels are their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = np.array_split(np.arange(len(images)), shards)
    written = tuple(
        _write_shard(folder / f"train-{number:05}", format, images, part.tolist())
        for number, part in enumerate(parts)
    )
    return Split(len(images), written)


def _write_shard(path: Path, format: str, images: Sequence[bytes], part: list[int]) -> Shard:
    stored = [stored_image(images[number], number, number) for number in part]
    suffix, writer = _WRITERS[format]
    record, index = path.with_suffix(suffix), path.with_suffix(".idx")
    with record.open("wb") as file, index.open("wb") as lines:
        writer(file, lines).append(stored)
    return Shard(record.name, index.name, len(part), record.stat().st_size, "")


def without_indexes(split: Split) -> Split:
    """Return a split as other programs write it, of which only the records are used."""
    return replace(split, shards=tuple(replace(shard, index=None) for shard in split.shards))


def open_images(folder: Path, format: str, images: Sequence[bytes], shards: int = 1) -> Records:
    """Write a split and open it."""
    return open_split(write_split(folder, format, images, shards), format, folder)
