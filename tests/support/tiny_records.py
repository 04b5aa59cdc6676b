"""Small sealed datasets of handwritten digits in TFRecord, written by TensorFlow itself.

For tests in TensorFlow's environment, which has no MXNet.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from imagenet_workloads.dataset import Dataset, Shard, Split, WriterVersion
from support.digits import CLASSES, digit, label

MEAN, STD = (78.0, 78.0, 78.0), (96.0, 96.0, 96.0)


def encoded(pixels: NDArray[np.uint8], label: int, name: str) -> bytes:
    """An image as a tf.train.Example, losslessly compressed."""

    def of_bytes(value: bytes) -> Any:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    content = cv2.imencode(".png", pixels[:, :, ::-1])[1].tobytes()
    features = {
        "image/encoded": of_bytes(content),
        "image/filename": of_bytes(name.encode()),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label + 1])),
    }
    message = tf.train.Example(features=tf.train.Features(feature=features))
    serialized: bytes = message.SerializeToString()
    return serialized


def write_shard(path: Path, digits: Sequence[int], edge: int = 28) -> Shard:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in digits:
            writer.write(encoded(digit(number, edge), label(number), str(number)))
    content = path.read_bytes()
    return Shard(path.name, None, len(digits), len(content), hashlib.sha256(content).hexdigest())


def write_dataset(folder: Path, train: int, validation: int, shards: int = 2) -> Path:
    """Write a sealed dataset: shuffled digits, in shards of uneven size; give its folder."""
    drawn = np.random.default_rng(0).permutation(1797)[: train + validation]
    folder.mkdir(parents=True, exist_ok=True)
    splits = {}
    for split, digits in (("train", drawn[:train]), ("validation", drawn[train:])):
        cuts = [cut for cut in np.array_split(digits, shards) if len(cut)]
        written = tuple(
            write_shard(folder / f"{split}-{place:05}.tfrecord", cut.tolist())
            for place, cut in enumerate(cuts)
        )
        splits[split] = Split(sum(shard.records for shard in written), written)
    sealed = Dataset(
        key="0" * 32,
        writer=WriterVersion("test", "opencv"),
        options={},
        classes=CLASSES,
        train=splits["train"],
        validation=splits["validation"],
        mean=MEAN,
        std=STD,
        format="TFRecord",
    )
    (folder / "dataset.json").write_text(sealed.to_json())
    return folder
