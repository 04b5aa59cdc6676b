"""WebDataset's shards: a class beside each image, shards for training and for validation."""

from pathlib import Path

import pytest

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from support.pictures import jpeg, tar, write_folder, zipped
from support.preparation import prepare
from support.shards import IMAGES, shard, split


@pytest.mark.parametrize("how", ["cls", "json"])
@pytest.mark.parametrize("folder", ["", "some/folder/"])
def test_shards_are_the_dataset_of_their_images(how: str, folder: str, tmp_path: Path) -> None:
    root = tmp_path / "shards"
    root.mkdir()
    for number, images in enumerate(split()):
        (root / f"imagenet-{number:06}.tar").write_bytes(shard(images, how, folder))
    options = ("--shards", "1", "--default-validation-per-class", "1")
    sealed = read_dataset(prepare(root, tmp_path / "data", *options))
    assert (sealed.classes, sealed.train.per_class) == (("cat", "dog"), (3, 2))
    assert sealed.passed_over == {".txt": 7}
    # The bytes are those of class folders, but for the order of the images.
    plain = read_dataset(
        prepare(write_folder(tmp_path / "plain", IMAGES), tmp_path / "data", *options)
    )
    assert plain.train.images == sealed.train.images


@pytest.mark.parametrize("names", [("train", "val"), ("x-train-00", "x-validation-00")])
def test_shards_of_validation_images_validate(names: tuple[str, str], tmp_path: Path) -> None:
    root = tmp_path / "shards"
    root.mkdir()
    for name, images in zip(names, split(), strict=True):
        (root / f"{name}.tar").write_bytes(shard(images))
    (root / "x-test-00.tar").write_bytes(shard(split()[0]))
    sealed = read_dataset(prepare(root, tmp_path / "data", "--shards", "1"))
    assert (sealed.train.images, sealed.validation.images) == (3, 4)


def test_one_shard_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(shard({**split()[0], **split()[1]}))
    sealed = read_dataset(prepare(path, tmp_path / "data", "--shards", "1"))
    assert (sealed.classes, sealed.train.per_class) == (("cat", "dog"), (4, 3))
    # Class folders with a file of data beside each image are class folders, as before.
    files = {"a/1.jpg": jpeg(1), "a/1.json": b"{}", "b/2.jpg": jpeg(2), "b/2.json": b"{}"}
    path.write_bytes(tar(files))
    assert volume.open_source(path).kind == "tar of folders"
    path.with_name("x.zip").write_bytes(zipped(files))
    assert volume.open_source(path.with_name("x.zip")).kind == "zip of folders"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"1.jpg": b"x", "1.cls": b"a", "2.jpg": b"x"}, r"2\.jpg: has no class; write it into"),
        ({"1.jpg": b"x", "1.cls": b" \n"}, r"1\.jpg: its class is empty"),
        ({"1.jpg": b"x", "1.json": b"{"}, r"1\.json: is not valid JSON"),
        (
            {"1.jpg": b"x", "1.json": b'{"a": 1}'},
            r"x\.tar: 1\.jpg: has no class; write it into a \.cls or \.json",
        ),
        ({"1.jpg": b"x", "1.png": b"x", "1.cls": b"a"}, r"has two images, 1\.jpg and 1\.png"),
        ({"1.jpg": b"x", "1.cls": b"a\x01"}, "control characters"),
    ],
)
def test_says_what_is_wrong_with_a_sample(
    files: dict[str, bytes], message: str, tmp_path: Path
) -> None:
    (tmp_path / "x.tar").write_bytes(tar(files))
    with pytest.raises(InputError, match=message):
        list(volume.open_source(tmp_path / "x.tar").scan(Notes()))


def test_a_cls_counts_more_than_a_json(tmp_path: Path) -> None:
    files = {"1.cls": b"7", "1.jpg": b"x", "1.json": b'{"label": 8}'}
    (tmp_path / "x.tar").write_bytes(tar(files))
    (image,) = volume.open_source(tmp_path / "x.tar").scan(Notes())
    assert image.class_name == "7"
