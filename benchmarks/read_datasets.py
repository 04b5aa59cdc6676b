"""The sealed datasets of photographs that `reading` reads."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from benchmarks.photographs import make_photographs

from imagenet_workloads.dataset import Dataset, Shard, Split, WriterVersion
from imagenet_workloads.prepare import formats
from imagenet_workloads.prepare.codecs import choose as choose_codec
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.formats.format import INDEX_SUFFIX, StoredImage
from imagenet_workloads.prepare.transcode import transcode

SHARDS = 4


def records_of(place: Path, edge: int, images: int, format: str) -> Path:
    """Write a dataset of one size and format below a folder, unless it is there; return its own."""
    photographs = make_photographs(place, images)
    folder = place / f"{photographs.name}-{edge}-{format}"
    if (folder / "dataset.json").exists():
        return folder
    cv2.setNumThreads(1)
    folder.mkdir(exist_ok=True)
    stored = list(_stored(edge, photographs))
    numbers = np.random.default_rng(0).permutation(len(stored))
    shards = tuple(
        _shard(folder / f"train-{part:05}", [stored[number] for number in chosen], format)
        for part, chosen in enumerate(np.array_split(numbers, SHARDS))
    )
    classes = tuple(f"{number:03}" for number in range(20))
    colour = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    writer = WriterVersion("1", "opencv")
    train, none = Split(len(stored), shards), Split(0, ())
    sealed = Dataset("0", writer, {}, classes, train, none, *colour, format=format)
    (folder / "dataset.json").write_text(sealed.to_json())
    return folder


def _stored(edge: int, photographs: Path) -> Iterator[StoredImage]:
    codec, recipe = choose_codec("opencv"), Recipe(edge, 90)
    for key, path in enumerate(sorted(photographs.rglob("*.JPEG"))):
        packed = transcode(path.read_bytes(), recipe, codec)
        size = packed.height, packed.width
        yield StoredImage(key, key % 20, "", "", path.name.encode(), *size, packed.jpeg)


def _shard(path: Path, images: list[StoredImage], format: str) -> Shard:
    written = formats.named(format)
    record = path.with_suffix(f".{written.suffix}")
    index = path.with_suffix(f".{INDEX_SUFFIX}")
    with record.open("wb") as records, index.open("wb") as lines:
        written.writer(records, lines).append(images)
    return Shard(record.name, index.name, len(images), record.stat().st_size, "")
