"""Folders of archives: one a class, or one a split as image-net.org gives ILSVRC2012."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from support.development_kit import GROUND_TRUTH, META, WORDS, unpacked
from support.image_trees import classes_of
from support.image_trees import write_folder as write_files
from support.pictures import collection, jpeg, tar, write_folder, zipped
from support.preparation import prepare, refused
from support.sentences import assert_says, says

IMAGES = collection({"n01": 4, "n02": 3, "n03": 5})
ARCHIVES: dict[str, Callable[[dict[str, bytes]], bytes]] = {"tar": tar, "zip": zipped}


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_one_archive_a_class_is_the_dataset_of_its_images(suffix: str, tmp_path: Path) -> None:
    root = tmp_path / "archives"
    root.mkdir()
    for name, images in IMAGES.items():
        deeper = {f"images/{one}": content for one, content in images.items()}
        (root / f"{name}.{suffix}").write_bytes(ARCHIVES[suffix](deeper))
    (root / f"n04.{suffix}").touch()
    (root / "README").touch()
    options = ("--shards", "1", "--validation-per-class", "1")
    sealed = read_dataset(prepare(root, tmp_path / "data", *options))
    assert dict(zip(sealed.classes, sealed.train.per_class or (), strict=True)) == {
        "n01": 3, "n02": 2, "n03": 4,
    }  # fmt: skip
    assert sealed.dropped_classes == {"n04": 0}
    assert sealed.passed_over == {"none": 1}
    plain = write_folder(tmp_path / "plain", IMAGES)
    other = read_dataset(prepare(plain, tmp_path / "data", *options))
    assert other.train.shards[0].sha256 == sealed.train.shards[0].sha256


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "n01.tar.gz": gzip.compress,
    "n02.tar.zst": zstandard.compress,
    "n03.tbz2": bz2.compress,
    "n04.tar.xz": lzma.compress,
}
FOUR = collection({"n01": 4, "n02": 3, "n03": 5, "n04": 2, "n05": 3})


def compressed_folder(root: Path) -> Path:
    """A folder of compressed class archives, with one that is not compressed."""
    root.mkdir()
    for name, compress in COMPRESSED.items():
        (root / name).write_bytes(compress(tar(FOUR[name[:3]])))
    (root / "n05.tar").write_bytes(tar(FOUR["n05"]))
    (root / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(b"the development kit is no class")
    return root


def test_compressed_archives_of_a_folder_are_its_classes_too(tmp_path: Path) -> None:
    options = ("--shards", "1", "--default-validation-per-class", "1")
    packed = compressed_folder(tmp_path / "archives")
    found = read_dataset(prepare(packed, tmp_path / "data", *options))
    assert found.classes == tuple(FOUR)
    assert found.train.per_class == (3, 2, 4, 1, 2)
    # The names of the images are those in tars, so the dataset is the same.
    for name in COMPRESSED:
        (packed / name).unlink()
        (packed / f"{name[:3]}.tar").write_bytes(tar(FOUR[name[:3]]))
    same = read_dataset(prepare(packed, tmp_path / "data", *options))
    assert same.key == found.key


def test_what_is_decompressed_leaves_nothing(tmp_path: Path) -> None:
    options = ("--shards", "1", "--default-validation-per-class", "1")
    prepare(compressed_folder(tmp_path / "archives"), tmp_path / "data", *options)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["datasets"]


def test_compressed_archives_that_are_too_large_say_what_to_do(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = compressed_folder(tmp_path / "archives")
    first = (root / "n01.tar.gz").stat().st_size
    limit = "imagenet_workloads.prepare.stores.compressed.LARGEST_COMPRESSED"
    # The limit is of all together.
    monkeypatch.setattr(limit, first + 1)
    said = refused(capfd, "--source", root, "--data", tmp_path / "data", "--shards", "1")
    assert_says(said, f"{root}/n02.tar.zst", "is compressed", "decompresses at most")
    assert_says(said, "decompress it", "source.http or source.s3 with cache")


def test_a_damaged_compressed_archive_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = compressed_folder(tmp_path / "archives")
    path = root / "n02.tar.zst"
    path.write_bytes(path.read_bytes()[:-9])
    said = refused(capfd, "--source", root, "--data", tmp_path / "data", "--shards", "1")
    assert f"{path}: does not decompress: " in said


def test_an_archive_that_is_there_twice_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = compressed_folder(tmp_path / "archives")
    (root / "n01.tar").write_bytes(tar(FOUR["n01"]))
    said = refused(capfd, "--source", root, "--data", tmp_path / "data", "--shards", "1")
    assert_says(said, f"{root}: ", "both n01.tar and n01.tar.gz", "delete one")


def ilsvrc(root: Path) -> Path:
    """As image-net.org gives ILSVRC2012, small."""
    kit = root / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("n02\nn03\nn01\n")
    inner = {f"{name}.tar": tar(images) for name, images in IMAGES.items()}
    (root / "ILSVRC2012_img_train.tar").write_bytes(tar(inner))
    images = {f"ILSVRC2012_val_{n}.JPEG": jpeg(n) for n in range(3)}
    (root / "ILSVRC2012_img_val.tar").write_bytes(tar(images))
    (root / "ILSVRC2012_img_test.tar").write_bytes(tar(images))
    return root


def test_the_files_of_image_net_org_need_no_layout(tmp_path: Path) -> None:
    options = ("--shards", "1", "--default-validation-per-class", "1")
    sealed = read_dataset(prepare(ilsvrc(tmp_path / "raw"), tmp_path / "data", *options))
    assert (sealed.train.per_class, sealed.validation.per_class) == ((4, 3, 5), (1, 1, 1))


def test_the_development_kit_has_numbers_and_words(tmp_path: Path) -> None:
    root = write_files(ilsvrc(tmp_path / "raw"), unpacked([1000, 1, 490]))
    dataset = prepare(root, tmp_path / "data", "--shards", "1")
    assert read_dataset(dataset).class_words == WORDS
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {f"ILSVRC2012_val_{n}.JPEG": name for n, name in enumerate(sorted(IMAGES))}
    # Other files of words precede it, Kaggle's first.
    for name, word in (("words.txt", "pike"), ("LOC_synset_mapping.txt", "bream")):
        (root / name).write_text(f"n01 {word}\n")
        sealed = read_dataset(prepare(root, tmp_path / "data", "--shards", "1"))
        assert sealed.class_words == {"n01": word}


def test_the_files_of_the_kit_may_lie_beside_the_archives(tmp_path: Path) -> None:
    root = ilsvrc(tmp_path / "raw")
    (root / "ILSVRC2012_devkit_t12").rename(tmp_path / "elsewhere")
    for path, content in unpacked([1000, 1, 490]).items():
        (root / Path(path).name).write_bytes(content)
    sealed = read_dataset(prepare(root, tmp_path / "data", "--shards", "1"))
    assert (sealed.class_words, sealed.validation.images) == (WORDS, 3)
    # Without the kit's labels beside it, meta.mat may be anything.
    (root / GROUND_TRUTH).unlink()
    (root / META).write_bytes(b"other")
    drawn = ("--shards", "1", "--validation-per-class", "1")
    assert not read_dataset(prepare(root, tmp_path / "data", *drawn)).class_words


def test_archives_of_class_folders_may_be_the_splits(tmp_path: Path) -> None:
    for split in ("train", "val"):
        files = {
            f"{name}/{one}": content
            for name, images in IMAGES.items()
            for one, content in list(images.items())[:2]
        }
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / "raw" / f"{split}.zip").write_bytes(zipped(files))
    (tmp_path / "raw" / "words.txt").write_text("n01\ttench\n")
    sealed = read_dataset(prepare(tmp_path / "raw", tmp_path / "data", "--shards", "1"))
    assert (sealed.train.per_class, sealed.validation.per_class) == ((2, 2, 2), (2, 2, 2))
    assert sealed.class_words == {"n01": "tench"}


def test_the_archives_of_splits_may_be_compressed(tmp_path: Path) -> None:
    folders = {f"{name}/{one}": jpeg for name in IMAGES for one, jpeg in IMAGES[name].items()}
    (tmp_path / "raw").mkdir()
    for split in ("train", "val"):
        (tmp_path / "raw" / f"{split}.tar.gz").write_bytes(gzip.compress(tar(folders)))
    sealed = read_dataset(prepare(tmp_path / "raw", tmp_path / "data", "--shards", "1"))
    assert (sealed.train.per_class, sealed.validation.per_class) == ((4, 3, 5), (4, 3, 5))


def test_a_validation_archive_without_labels_says_which_file_to_add(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = ilsvrc(tmp_path / "raw")
    (root / "ILSVRC2012_devkit_t12").rename(tmp_path / "elsewhere")
    message = refused(capfd, "--source", root, "--data", tmp_path / "data", "--shards", "1")
    assert_says(message, f"{root}: ILSVRC2012_img_val.tar: ", "no class folders")
    assert_says(message, "LOC_val_solution.csv or ILSVRC2012_validation_ground_truth.txt above")


def test_what_is_wrong_with_an_archive_names_it(tmp_path: Path) -> None:
    root = tmp_path / "raw"
    root.mkdir()
    (root / "n01.tar").write_bytes(tar(IMAGES["n01"]))
    (root / "n02.zip").write_bytes(zipped(IMAGES["n02"]))
    with pytest.raises(InputError, match=says(f"{root}: ", "tars and zips", "one folder")):
        volume.open_source(root)
    (root / "n02.zip").rename(root / "n02.tar")
    with pytest.raises(InputError, match=r"n02\.tar: is compressed \(zip\)"):
        list(volume.open_source(root).scan(Notes()))
    (root / "n02.tar").write_bytes(gzip.compress(tar(IMAGES["n02"])))
    with pytest.raises(InputError, match=r"n02\.tar: is compressed \(gzip\)"):
        list(volume.open_source(root).scan(Notes()))
    (root / "n02.tar").write_bytes(tar(IMAGES["n02"]))
    source = volume.open_source(root)
    images = list(source.scan(Notes()))
    (root / "n02.tar").unlink()
    with pytest.raises(InputError, match=says("n02.tar", "is gone", "the source has changed")):
        source.read(images[-1].name, images[-1].offset, images[-1].size)
    (tmp_path / "n03.tar").write_bytes(tar(IMAGES["n03"]))
    (root / "n03.tar").symlink_to(tmp_path / "n03.tar")
    with pytest.raises(InputError, match=says("n03.tar", "is a link to", "out of the source")):
        list(volume.open_source(root).scan(Notes()))


def test_class_folders_beside_an_archive_are_the_classes(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "raw", IMAGES)
    (root / "train.tar").write_bytes(tar(IMAGES["n01"]))
    notes = Notes()
    assert {one.class_name for one in volume.open_source(root).scan(notes)} == set(IMAGES)
    assert notes.suffixes == {".tar": 1}
