"""Splits of records in both formats, written by the preparation's own writers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from imagenet_workloads.dataset import RECORD_IO, TF_RECORD, Shard, Split
from imagenet_workloads.prepare.formats import recordio, tfrecord
from imagenet_workloads.reading.records import Records, open_split
from support.stored_images import stored_image

FORMATS = (RECORD_IO, TF_RECORD)


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
    if format == RECORD_IO:
        record, index = path.with_suffix(".rec"), path.with_suffix(".idx")
        with record.open("wb") as file, index.open("wb") as lines:
            recordio.Writer(file, lines).append(stored)
        return Shard(record.name, index.name, len(part), record.stat().st_size, "")
    record = path.with_suffix(".tfrecord")
    with record.open("wb") as file:
        tfrecord.Writer(file).append(stored)
    return Shard(record.name, None, len(part), record.stat().st_size, "")


def open_images(folder: Path, format: str, images: Sequence[bytes], shards: int = 1) -> Records:
    """Write a split and open it."""
    return open_split(write_split(folder, format, images, shards), format, folder)
