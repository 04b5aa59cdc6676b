"""Trees of loose images in a bucket, by the rule for folders; SeaweedFS serves them."""

from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from imagenet_workloads.commands import index, pack
from imagenet_workloads.dataset import read_dataset
from support.development_kit import WORDS, unpacked
from support.image_trees import (
    CLASSES,
    TORCHVISION,
    TREES,
    UNLABELLED,
    Files,
    classes_of,
    write_folder,
)
from support.pictures import jpeg
from support.preparation import prepare, refused, run_index
from support.remote_preparation import prepare_remote
from support.s3_server import S3Server, serve_s3
from support.sentences import assert_says

SPLIT_DRAWN = ("--shards", "1", "--default-validation-per-class", "2")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        for name, files in TREES.items():
            fill(running, name, files)
        yield running


def fill(server: S3Server, prefix: str, files: Files) -> None:
    server.fill("trees", {f"{prefix}/{path}": content for path, content in files.items()})


@pytest.fixture(autouse=True)
def secret(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(server.secret(tmp_path / "secret")))


def reading(server: S3Server, prefix: str, *more: str, bucket: str = "trees") -> list[str]:
    options = (f"--s3-bucket={bucket}", f"--s3-endpoint={server.endpoint}")
    return [*options, f"--s3-prefix={prefix}", *more]


@pytest.mark.parametrize("tree", TREES)
def test_a_prefix_gives_the_splits_of_a_folder(tree: str, server: S3Server, tmp_path: Path) -> None:
    remote = prepare_remote(tmp_path / "remote", reading(server, tree), *SPLIT_DRAWN)
    folder = write_folder(tmp_path / "source", TREES[tree])
    local = prepare(folder, tmp_path / "local", *SPLIT_DRAWN)
    sealed, expected = read_dataset(remote), read_dataset(local)
    assert sealed.classes == expected.classes == CLASSES
    assert (sealed.train.images, sealed.validation.images) == (12, 3)
    assert sealed.options == expected.options
    for split in ("train", "validation"):
        found = classes_of(remote, tmp_path / "remote", split)
        assert found == classes_of(local, tmp_path / "local", split)


def test_the_limit_is_of_both_splits(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = reading(server, "torchvision", "--shards=1", "--data", str(tmp_path / "data"))
    # A request for each folder and each class of it, and one for each image.
    said = refused(capfd, *options, "--s3-max-requests=23")
    assert_says(said, "torchvision/train/: listing took 9 ", "packing takes 15,", "23 are allowed")
    assert index.main([*options, "--s3-max-requests=24"]) == 0


@pytest.mark.parametrize("below", ["ILSVRC", "ILSVRC/Data/", "ILSVRC/Data/CLS-LOC"])
def test_any_prefix_of_kaggle_s_tree_is_its_root(
    below: str, server: S3Server, tmp_path: Path
) -> None:
    # The label file is beside ILSVRC.
    options = reading(server, f"kaggle/{below}")
    sealed = read_dataset(prepare_remote(tmp_path / "data", options, "--shards", "1"))
    assert (sealed.train.images, sealed.validation.images) == (12, 3)


def test_a_bucket_may_be_a_tree_with_words(server: S3Server, tmp_path: Path) -> None:
    words = {"words.txt": b"n01\ttench\n"}
    server.fill("whole", {**TORCHVISION, **words, "val/.hidden/x.JPEG": jpeg(1)})
    options = reading(server, "/", bucket="whole")
    sealed = read_dataset(prepare_remote(tmp_path / "data", options, "--shards", "1"))
    assert (sealed.train.images, sealed.validation.images) == (12, 3)
    assert sealed.class_words == {"n01": "tench"}


@pytest.mark.parametrize("below", ["", "ILSVRC/Data"])
def test_the_development_kit_has_numbers_and_words(
    below: str, server: S3Server, tmp_path: Path
) -> None:
    fill(server, "kit", {**UNLABELLED, **unpacked([490, 1000, 1])})
    options = reading(server, f"kit/{below}")
    dataset = prepare_remote(tmp_path / "data", options, "--shards", "1")
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {"v_0.JPEG": "n03", "v_1.JPEG": "n01", "v_2.JPEG": "n02"}
    assert read_dataset(dataset).class_words == WORDS


def test_validation_images_of_their_own_may_be_class_folders(
    server: S3Server, tmp_path: Path
) -> None:
    options = reading(server, "torchvision/train", "--s3-validation=torchvision/val")
    dataset = prepare_remote(tmp_path / "data", options, "--shards", "1")
    assert read_dataset(dataset).validation.per_class == (1, 1, 1)
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {f"v_{name}.JPEG": name for name in CLASSES}
    # The prefix above has the same images, so the key is the same.
    whole = run_index(None, tmp_path / "data", *reading(server, "torchvision"), "--shards", "1")
    assert whole["key"] == dataset.name


def test_a_split_that_is_asked_for_is_drawn_from_the_training_images(
    server: S3Server, tmp_path: Path
) -> None:
    options = (*reading(server, "torchvision"), "--shards", "1", "--validation-per-class", "1")
    result = run_index(None, tmp_path / "data", *options)
    assert result["images"] == {"train": 9, "validation": 3}


def test_a_validation_class_that_the_training_lacks_is_named(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(server, "other", {**TORCHVISION, "val/N01/x.JPEG": jpeg(1)})
    options = reading(server, "other")
    said = refused(capfd, *options, "--data", tmp_path / "data")
    assert_says(said, "s3://trees/other/val/: 1 of 4 validation images", "training images lack")
    assert_says(said, "N01 (1 image; ", "the training images have n01")


def test_validation_images_without_classes_and_labels_are_refused(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(server, "unlabelled", UNLABELLED)
    options = reading(server, "unlabelled")
    said = refused(capfd, *options, "--data", tmp_path / "data")
    assert_says(said, "unlabelled/ILSVRC/Data/CLS-LOC/val/: ", "no class folders")
    drawn = ("--shards", "1", "--validation-per-class", "1")
    assert run_index(None, tmp_path / "data", *options, *drawn)


@pytest.mark.parametrize("names", [("bus", "train"), ("val", "train")])
def test_folders_of_images_with_the_names_of_splits_are_no_tree(
    names: tuple[str, ...],
    server: S3Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    files = {f"{name}/{n}.jpg": jpeg(n) for name in names for n in range(2)}
    prefix = "-".join(names)
    fill(server, prefix, files)
    options = reading(server, prefix)
    if "val" in names:
        said = refused(capfd, *options, "--data", tmp_path / "data")
        assert "are splits, not classes" in said
    else:
        result = run_index(None, tmp_path / "data", *options, "--shards", "1")
        assert (result["classes"], result["images"]) == (2, {"train": 4, "validation": 0})


def test_a_validation_image_that_changes_between_index_and_pack_is_named(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(server, "changes", TORCHVISION)
    options, data = reading(server, "changes"), tmp_path / "data"
    key = run_index(None, data, *options, "--shards", "1")["key"]
    changed = bytearray(TORCHVISION["val/n01/v_n01.JPEG"])
    changed[-1] ^= 1
    obstore.put(server.bucket("trees"), "changes/val/n01/v_n01.JPEG", bytes(changed))
    assert pack.main(["--data", str(data), "--key", key, *options]) == 3
    said = capfd.readouterr().err
    assert_says(said, "changes/val/n01/v_n01.JPEG: ", "another ETag", "the source has changed")
