"""A sealed TFRecord dataset as TensorFlow itself reads it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from imagenet_workloads.dataset import Split, read_dataset
from imagenet_workloads.records import tfrecord
from support.pictures import (
    Collection,
    collection,
    decode,
    difference,
    jpeg,
    with_exif,
    write_tar_of_tars,
)
from support.preparation import prepare
from support.stored_images import stored_image

PAGE = Path(__file__).parents[2] / "docs" / "dataset.md"
TEXT = tf.io.FixedLenFeature([], tf.string)
NUMBER = tf.io.FixedLenFeature([], tf.int64)
# What ImageNet's readers ask for.
FEATURES = {
    "image/channels": NUMBER,
    "image/class/label": NUMBER,
    "image/class/synset": TEXT,
    "image/class/text": TEXT,
    "image/colorspace": TEXT,
    "image/encoded": TEXT,
    "image/filename": TEXT,
    "image/format": TEXT,
    "image/height": NUMBER,
    "image/width": NUMBER,
}

IMAGES: Collection = collection({"n01": 9, "n02": 9})
IMAGES["n02"]["turned.JPEG"] = with_exif(jpeg(51, 24, 32), 6)


@pytest.fixture(scope="module", params=["as they are", "resized"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    source = write_tar_of_tars(folder / "source.tar", IMAGES)
    options = ("--format", "TFRecord", "--shards", "3", "--validation-per-class", "2")
    resize = ("--resize", "20") if request.param == "resized" else ()
    return prepare(source, folder / "data", *options, *resize)


def parsed(dataset: Path, split: Split) -> list[dict[str, Any]]:
    """Every example of a split, read by tf.data and parsed by TensorFlow."""
    files = [str(dataset / shard.record) for shard in split.shards]
    examples = tf.data.TFRecordDataset(files).map(
        lambda record: tf.io.parse_single_example(record, FEATURES)
    )
    return list(examples.as_numpy_iterator())


def test_tensorflow_reads_every_example(dataset: Path) -> None:
    sealed = read_dataset(dataset)
    for split in (sealed.train, sealed.validation):
        found = parsed(dataset, split)
        assert len(found) == split.images
        labels = [int(features["image/class/label"]) - 1 for features in found]
        assert tuple(np.bincount(labels, minlength=2)) == split.per_class
        for label, features in zip(labels, found, strict=True):
            name = features["image/filename"].decode()
            assert name in IMAGES[sealed.classes[label]]
            assert features["image/class/synset"].decode() == sealed.classes[label]
            assert features["image/class/text"].decode() == sealed.classes[label]


def test_the_page_s_pattern_finds_the_records_without_their_indexes(dataset: Path) -> None:
    (pattern,) = re.findall(r'glob\("datasets/KEY/(.+)"\)', PAGE.read_text())
    found = tf.data.Dataset.list_files(str(dataset / pattern), shuffle=False)
    names = [Path(name.decode()).name for name in found.as_numpy_iterator()]
    assert names == [shard.record for shard in read_dataset(dataset).train.shards]
    assert len(list(dataset.glob("train-*.idx"))) == len(names)


def test_tensorflow_decodes_the_pixels(dataset: Path) -> None:
    sealed = read_dataset(dataset)
    resized = sealed.options["resize"] is not None
    for features in parsed(dataset, sealed.train):
        pixels = tf.io.decode_jpeg(features["image/encoded"], channels=3).numpy()
        shape = (int(features["image/height"]), int(features["image/width"]))
        assert pixels.shape == (*shape, int(features["image/channels"]))
        assert min(shape) == (20 if resized else 24)
        assert difference(pixels, decode(features["image/encoded"])) < 2
        assert (features["image/format"], features["image/colorspace"]) == (b"JPEG", b"RGB")


def test_the_page_about_datasets_shows_how_to_read_one(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "dataset.md").read_text()
    (program,) = re.findall(r"```\n(import tensorflow.*?)```", page, re.DOTALL)
    exec(program.replace("datasets/KEY", str(dataset)), {})
    first = parsed(dataset, read_dataset(dataset).train)[0]
    shape = (int(first["image/height"]), int(first["image/width"]), 3)
    assert capsys.readouterr().out.split(") ") == [
        str(shape)[:-1],
        f"{first['image/class/label'] - 1}\n",
    ]


def test_tensorflow_notices_a_changed_byte(dataset: Path, tmp_path: Path) -> None:
    (first, *_) = read_dataset(dataset).train.shards
    content = bytearray((dataset / first.record).read_bytes())
    content[200] ^= 1
    damaged = tmp_path / first.record
    damaged.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset([str(damaged)]))


@pytest.mark.parametrize("payload", [b"", b"abc", bytes(100_000), b"\xff" * 127, b"x" * 128])
def test_the_bytes_are_those_of_tensorflows_own_writer(payload: bytes, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        writer.write(payload)
    assert b"".join(tfrecord.encode([payload])) == (tmp_path / "theirs").read_bytes()


def test_the_example_is_what_protobuf_would_make() -> None:
    image = stored_image(b"\xff\xd8jpeg" * 50, label=999, class_name="n15075141é", name=b"x/\xff")

    def text(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def number(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    values = {
        "image/channels": number(3),
        "image/class/label": number(1000),
        "image/class/synset": text("n15075141é".encode()),
        "image/class/text": text(image.class_words.encode()),
        "image/colorspace": text(b"RGB"),
        "image/encoded": text(image.jpeg),
        "image/filename": text(image.name),
        "image/format": text(b"JPEG"),
        "image/height": number(image.height),
        "image/width": number(image.width),
    }
    theirs = tf.train.Example(features=tf.train.Features(feature=values))
    assert b"".join(tfrecord.encode_example(image)) == theirs.SerializeToString(deterministic=True)
