"""The sealed datasets of photographs that `reading`, `field` and `gpu` read."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from benchmarks.photographs import make_photographs
from sklearn.datasets import load_sample_images

from imagenet_workloads.dataset import RECORD_IO, Dataset, Shard, Split, WriterVersion
from imagenet_workloads.prepare.codecs import choose as choose_codec
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.transcode import transcode
from imagenet_workloads.records import format_named
from imagenet_workloads.records.format import INDEX_SUFFIX, StoredImage
from imagenet_workloads.records.split import open_split

SHARDS = 4


def records_of(place: Path, edge: int, images: int, format: str) -> Path:
    """Write a dataset of one size and format below a folder, unless it is there; return its own."""
    photographs = make_photographs(place, images)
    folder = place / f"{photographs.name}-{edge}-{format}"
    if (folder / "dataset.json").exists():
        return folder
    cv2.setNumThreads(1)
    return _sealed(folder, list(_stored(edge, photographs)), format)


def small_records_of(place: Path, edge: int, images: int) -> Path:
    """Write RecordIO of small images, as CIFAR-10's, unless it is there; return its folder."""
    folder = place / f"small-{edge}-{images}"
    if (folder / "dataset.json").exists():
        return folder
    cv2.setNumThreads(1)
    random, photographs = np.random.default_rng(0), load_sample_images().images
    stored = []
    for key in range(images):
        photograph = photographs[key % len(photographs)]
        height, width, _ = photograph.shape
        side = int(random.integers(edge, 4 * edge))
        top, left = random.integers(height - side), random.integers(width - side)
        view = photograph[top : top + side, left : left + side]
        small = cv2.resize(view, (edge, edge), interpolation=cv2.INTER_AREA)
        _, jpeg = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 95])
        stored.append(
            StoredImage(key, key % 10, "", "", f"{key}".encode(), edge, edge, jpeg.tobytes())
        )
    return _sealed(folder, stored, RECORD_IO)


def _sealed(folder: Path, stored: list[StoredImage], format: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(0).permutation(len(stored))
    shards = tuple(
        _shard(folder / f"train-{part:05}", [stored[number] for number in chosen], format)
        for part, chosen in enumerate(np.array_split(numbers, SHARDS))
    )
    classes = tuple(f"{number:03}" for number in range(1 + max(one.label for one in stored)))
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
    written = format_named(format)
    record = path.with_suffix(f".{written.suffix}")
    index = path.with_suffix(f".{INDEX_SUFFIX}")
    with record.open("wb") as records, index.open("wb") as lines:
        written.writer(records, lines).append(images)
    return Shard(record.name, index.name, len(images), record.stat().st_size, "")


def write_files(dataset: Dataset, records: Path, files: Path, times: int = 1) -> None:
    """Write the JPEGs of a dataset's training split into class folders, each so many times."""
    opened = open_split(dataset.train, dataset.format, records)
    for number in range(opened.count):
        (run,) = opened.runs([number])
        found = opened.parse(number, opened.read(run)[0])
        folder = files / f"{found.label:03}"
        folder.mkdir(exist_ok=True)
        first = folder / f"{number:06}-000.jpg"
        first.write_bytes(found.encoded)
        for copy in range(1, times):
            (folder / f"{number:06}-{copy:03}.jpg").hardlink_to(first)
