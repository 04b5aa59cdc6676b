"""Small sealed datasets of real handwritten digits, written with MXNet's own recordio."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_workloads.dataset import Dataset, Shard, Split, WriterVersion
from support.digits import CLASSES, digit, label


@dataclass(frozen=True)
class TinyDataset:
    """A dataset on disk.

    Attributes:
        folder: with dataset.json.
        train: digits (positions in scikit-learn's set), in the order of their records.
        validation: likewise.
    """

    folder: Path
    train: tuple[int, ...]
    validation: tuple[int, ...]


def write_shard(
    folder: Path, name: str, digits: Sequence[int], edge: int = 28, first_label: int = 0
) -> Shard:
    """Write one .rec and .idx; a record's id is the digit's position in scikit-learn's set."""
    record, index = folder / f"{name}.rec", folder / f"{name}.idx"
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(record), "w")
    for key, number in enumerate(digits):
        header = mx.recordio.IRHeader(0, float(label(number) + first_label), number, 0)
        writer.write_idx(key, mx.recordio.pack_img(header, digit(number, edge), quality=95))
    writer.close()
    content = record.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Shard(record.name, index.name, len(digits), len(content), digest)


def write_dataset(
    folder: Path, train: int = 1500, validation: int = 297, shards: int = 2, edge: int = 28
) -> TinyDataset:
    """Write a sealed dataset: shuffled digits, split into shards of uneven size."""
    order = np.random.default_rng(0).permutation(1797)
    drawn = tuple(int(number) for number in order[: train + validation])
    parts = {"train": drawn[:train], "validation": drawn[train:]}
    folder.mkdir(parents=True, exist_ok=True)
    splits = {}
    for split, digits in parts.items():
        count = min(shards, len(digits)) or 1
        # Uneven on purpose: a shard has one image more than the next.
        cuts = np.array_split(np.array(digits, dtype=int), count)
        written = tuple(
            write_shard(folder, f"{split}-{place:05}-of-{count:05}", cut.tolist(), edge)
            for place, cut in enumerate(cuts)
            if len(cut)
        )
        splits[split] = Split(sum(shard.records for shard in written), written)
    sealed = Dataset(
        key="0" * 32,
        writer=WriterVersion("test", "opencv"),
        options={},
        classes=CLASSES,
        train=splits["train"],
        validation=splits["validation"],
        mean=(78.0, 78.0, 78.0),
        std=(96.0, 96.0, 96.0),
    )
    (folder / "dataset.json").write_text(sealed.to_json())
    return TinyDataset(folder, parts["train"], parts["validation"])
