"""From every kind of source to a sealed dataset, read back by MXNet."""

import json
from collections.abc import Callable
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.commands import pack, seal
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.records import recordio
from support.codecs import CODECS
from support.pictures import (
    Collection,
    collection,
    decode,
    difference,
    jpeg,
    pixels,
    png,
    with_exif,
    write_folder,
    write_tar_of_folders,
    write_tar_of_tars,
)
from support.preparation import contents, dataset_of, prepare, records, run_index

MAGIC = recordio.MAGIC.to_bytes(4, "little")


def with_comment(image: bytes, comment: bytes) -> bytes:
    """A JPEG with a comment that begins at a multiple of 4 in its record."""
    # The record's header has 24 bytes, the start of the image 2, the comment's marker 4.
    comment = b"\0\0" + comment
    return image[:2] + b"\xff\xfe" + (2 + len(comment)).to_bytes(2, "big") + comment + image[2:]


IMAGES = collection({"n01": 9, "n02": 9})
IMAGES["n01"]["magic.JPEG"] = with_comment(jpeg(70, 24, 32), MAGIC * 2 + b"xy" + MAGIC)
IMAGES["n02"]["magic2.JPEG"] = with_comment(jpeg(71, 24, 32), MAGIC)


def by_name(dataset: Path) -> dict[str, tuple[str, float, bytes]]:
    """Split, label and JPEG of each record, by the name of its image."""
    names = {}
    for path in (dataset / "plan").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            key, _, _, _, name = json.loads(line)
            names[path.name[0], key] = name.rpartition("/")[2]
    return {
        names[record.split[0], record.key]: (record.split, record.label, record.jpeg)
        for record in records(dataset)
    }


@pytest.mark.parametrize("write", [write_folder, write_tar_of_tars, write_tar_of_folders])
def test_every_image_arrives_with_its_label(
    write: Callable[[Path, Collection], Path], tmp_path: Path
) -> None:
    source = write(tmp_path / "source", IMAGES)
    dataset = prepare(
        source, tmp_path / "data", "--shards", "3", "--validation-per-class", "2", threads=3
    )
    sealed = read_dataset(dataset)
    assert sealed.classes == ("n01", "n02")
    assert (sealed.train.per_class, sealed.validation.per_class) == ((8, 8), (2, 2))
    found = by_name(dataset)
    assert len(found) == 20
    for label, members in enumerate(IMAGES.values()):
        for name, content in members.items():
            assert found[name][1:] == (label, content)


@pytest.mark.parametrize("options", [(), ("--resize", "24")])
def test_mxnet_iterates_over_the_pixels(options: tuple[str, ...], tmp_path: Path) -> None:
    source = write_tar_of_tars(tmp_path / "source.tar", IMAGES)
    dataset = prepare(source, tmp_path / "data", "--shards", "1", *options)
    sealed = read_dataset(dataset)
    (shard,) = sealed.train.shards
    assert shard.index is not None
    # Images that pass through keep their magic numbers.
    stored_magic = [MAGIC in record.jpeg for record in records(dataset)]
    assert sum(stored_magic) == (0 if options else 2)
    for use_index in (False, True):
        index = {"path_imgidx": str(dataset / shard.index)} if use_index else {}
        iterator = mx.io.ImageRecordIter(
            path_imgrec=str(dataset / shard.record), data_shape=(3, 24, 32), batch_size=4,
            preprocess_threads=1, round_batch=False, label_width=1, **index,
        )  # fmt: skip
        batches = [(batch.data[0].asnumpy(), batch.label[0].asnumpy()) for batch in iterator]
        data = np.concatenate([data for data, _ in batches])
        labels = np.concatenate([label for _, label in batches])
        expected = list(records(dataset))
        assert labels.tolist() == [record.label for record in expected]
        for found, record in zip(data, expected, strict=True):
            stored = decode(record.jpeg)
            assert difference(found.transpose(1, 2, 0).astype(np.uint8), stored) < 2


def test_records_with_the_magic_number_pass_through_mxnet(tmp_path: Path) -> None:
    image = IMAGES["n01"]["magic.JPEG"]
    magic = {name: {"magic.JPEG": image} for name in ("n01", "n02")}
    dataset = prepare(write_folder(tmp_path / "s", magic), tmp_path / "data", "--shards", "1")
    content = (dataset / "train-00000-of-00001.rec").read_bytes()
    # Each piece has its head, and the three in the comment are dropped: no record is whole.
    assert content.count(MAGIC) == 2 * 4
    assert [record.jpeg for record in records(dataset)] == [image, image]
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(dataset / "train-00000-of-00001.rec"), data_shape=(3, 24, 32), batch_size=1
    )
    read = iterator.next().data[0].asnumpy()[0].transpose(1, 2, 0).astype(np.uint8)
    assert difference(read, decode(image)) < 2


@pytest.mark.parametrize("codec", CODECS)
def test_resized_images_keep_their_pixels(codec: str, tmp_path: Path) -> None:
    images = {"a": {f"{n}.JPEG": jpeg(n, 60 + n, 90 - n) for n in range(8)}}
    images["a"]["n02105855_2933.JPEG"] = png(pixels(50, 60, 80))
    images["a"]["turned.JPEG"] = with_exif(jpeg(51, 60, 80), 6)
    images["b"] = {"other.JPEG": jpeg(9, 60, 90)}
    source = write_tar_of_tars(tmp_path / "x.tar", images)
    options = ("--shards", "1", "--resize", "30", "--codec", codec)
    dataset = prepare(source, tmp_path / "data", *options)
    assert read_dataset(dataset).writer.codec == codec
    found = by_name(dataset)
    for name in images["a"]:
        stored = decode(found[name][2])
        assert min(stored.shape[:2]) == 30
    assert decode(found["turned.JPEG"][2]).shape == (40, 30, 3)
    assert decode(found["n02105855_2933.JPEG"][2]).shape == (30, 40, 3)


def test_mean_and_deviation_are_those_of_the_training_pixels(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", IMAGES)
    dataset = prepare(source, tmp_path / "data", "--shards", "2", "--validation-per-class", "3")
    sealed = read_dataset(dataset)
    images = [decode(record.jpeg) for record in records(dataset) if record.split == "train"]
    points = np.concatenate([image.reshape(-1, 3) for image in images])
    assert np.allclose(sealed.mean, points.mean(axis=0), atol=0.5)
    assert np.allclose(sealed.std, points.std(axis=0), atol=0.5)


@pytest.mark.parametrize("codec", CODECS)
def test_mean_and_deviation_of_larger_images_are_near_those_of_all_their_pixels(
    codec: str, tmp_path: Path
) -> None:
    images = {
        name: {f"{n}.JPEG": jpeg(n, 150 + n, 251 - n) for n in numbers}
        for name, numbers in {"a": range(15), "b": range(15, 30)}.items()
    }
    source = write_folder(tmp_path / "source", images)
    options = ("--shards", "1", "--resize", "120", "--codec", codec)
    dataset = prepare(source, tmp_path / "data", *options)
    sealed = read_dataset(dataset)
    points = np.concatenate([decode(record.jpeg).reshape(-1, 3) for record in records(dataset)])
    assert np.allclose(sealed.mean, points.mean(axis=0), atol=1.5)
    assert np.allclose(sealed.std, points.std(axis=0), atol=1.5)


def test_the_bytes_do_not_depend_on_threads_or_on_the_order_of_shards(tmp_path: Path) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", IMAGES)
    options = ("--shards", "3", "--resize", "20", "--validation-per-class", "2")
    one = prepare(source, tmp_path / "one", *options, threads=1)
    key = run_index(source, tmp_path / "other", *options)["key"]
    common = ["--data", str(tmp_path / "other"), "--key", key]
    for shard, threads in ((3, 5), (1, 2), (0, 8), (2, 1)):
        arguments = [*common, "--source", str(source), "--shard", str(shard)]
        assert pack.main([*arguments, "--threads", str(threads)]) == 0
    assert seal.main([*common, "--threads", "4"]) == 0
    assert contents(one) == contents(dataset_of(tmp_path / "other", key))


def test_another_copy_of_a_tar_gives_the_same_dataset(tmp_path: Path) -> None:
    one = write_tar_of_tars(tmp_path / "one.tar", IMAGES)
    other = tmp_path / "deeper" / "other.tar"
    other.parent.mkdir()
    other.write_bytes(one.read_bytes())
    options = ("--shards", "2")
    assert contents(prepare(one, tmp_path / "1", *options)) == contents(
        prepare(other, tmp_path / "2", *options)
    )


def test_a_synthetic_source_needs_no_path(tmp_path: Path) -> None:
    options = (
        "--synthetic-classes", "3", "--synthetic-images-per-class", "7",
        "--synthetic-image-shape", "3,16,20", "--shards", "2", "--validation-per-class", "2",
    )  # fmt: skip
    dataset = prepare(None, tmp_path / "data", *options)
    sealed = read_dataset(dataset)
    assert sealed.classes == ("class-0", "class-1", "class-2")
    assert (sealed.train.images, sealed.validation.images) == (15, 6)
    assert {decode(record.jpeg).shape for record in records(dataset)} == {(16, 20, 3)}
    assert contents(dataset) == contents(prepare(None, tmp_path / "again", *options))
    other = tuple("8" if option == "7" else option for option in options)
    assert run_index(None, tmp_path / "data", *other)["key"] != dataset.name


def test_validation_from_a_flat_tar_arrives(tmp_path: Path) -> None:
    source = write_tar_of_folders(tmp_path / "train.tar", IMAGES)
    validation = write_folder(
        tmp_path, {"val": {f"{n}.JPEG": jpeg(200 + n, 24, 32) for n in range(5)}}
    )
    (tmp_path / "labels.txt").write_text("n02\nn01\nn02\nn02\nn01\n")
    dataset = prepare(
        source, tmp_path / "data", "--shards", "1",
        "--validation-source", str(validation / "val"),
        "--validation-labels", str(tmp_path / "labels.txt"),
    )  # fmt: skip
    found = by_name(dataset)
    labels = {name: label for name, (split, label, _) in found.items() if split == "validation"}
    assert labels == {"0.JPEG": 1, "1.JPEG": 0, "2.JPEG": 1, "3.JPEG": 1, "4.JPEG": 0}
    assert read_dataset(dataset).train.images == 20
