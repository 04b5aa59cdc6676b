"""CIFAR, Parquet files, shards and archives of splits are known by the whole listing."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts.choice import Choice
from imagenet_workloads.prepare.source import Notes, Source
from imagenet_workloads.prepare.sources import volume
from support.cifar import VERSIONS
from support.development_kit import GROUND_TRUTH
from support.image_trees import write_folder
from support.parquet_files import plain
from support.pictures import tar, zipped
from support.public_datasets import classes
from support.sentences import assert_says, says

FOLDERS = classes("data", ("a", "b"))
CIFAR = {
    f"cifar-10-batches-py/{name}": one for name, one in VERSIONS["cifar-10-batches-py"].items()
}
HUNDRED = {f"cifar-100/{name}": one for name, one in VERSIONS["cifar-100-binary"].items()}
PARQUET = plain([("dog", b"x"), ("cat", b"x")])
OTHERS = {f"0/{number}.md": b"" for number in range(30)}
AB, PETS = {"a": 3, "b": 3}, {"cat": 1, "dog": 1}
SHIPS = {"airplane": 6, "ship": 2, "truck": 7}
BOTH = r"holds a Parquet file \(such as {}\), images .* is not clear; write --layout parquet"

Files = Mapping[str, bytes]
CASES: dict[str, tuple[Files, str, Mapping[str, int] | str]] = {
    "Parquet after images": ({**FOLDERS, "z.parquet": PARQUET}, "", BOTH.format("z.parquet")),
    "Parquet before images": ({"a.parquet": PARQUET, **FOLDERS}, "", BOTH.format("a.parquet")),
    "Parquet as chosen": ({**FOLDERS, "z.parquet": PARQUET}, "parquet", PETS),
    "images as chosen": ({"a.parquet": PARQUET, **FOLDERS}, "classFolders", AB),
    "a table of metadata": ({**FOLDERS, "data/metadata.parquet": PARQUET}, "", AB),
    "Parquet deep in folders": ({"a/b/c/d/x.parquet": PARQUET}, "", PETS),
    "CIFAR beside many files": ({**OTHERS, **CIFAR}, "", SHIPS),
    "CIFAR beside images": ({**CIFAR, **FOLDERS}, "", "files of CIFAR .* --layout cifar"),
    "images before CIFAR": ({**FOLDERS, **CIFAR}, "", "files of CIFAR .* --layout cifar"),
    "CIFAR as chosen": ({**FOLDERS, **CIFAR}, "cifar", SHIPS),
    "two versions of CIFAR": ({**CIFAR, **HUNDRED}, "", "CIFAR in 2 folders; write .* or .*100"),
    "CIFAR and Parquet": (
        {**CIFAR, "x.parquet": PARQUET}, "", r"write --layout cifar .* or --layout parquet",
    ),
    "no CIFAR": (FOLDERS, "cifar", r"is no cifar .*: it holds images \(such as data/a/0\.jpg\)"),
    "no Parquet": (CIFAR, "parquet", r"is no parquet .*: it holds the files of CIFAR \(cifar-10-"),
    "no tree": ({"x.parquet": PARQUET}, "tree", "is no tree .* holds a Parquet file .* remove"),
    "no kit": (FOLDERS, "devkit", "is no devkit"),
    "no Kaggle": (
        {**classes("train", "ab"), **classes("val", "ab")}, "kaggle", "no kaggle .* read as tree",
    ),
}  # fmt: skip


def counted(source: Source, notes: Notes | None = None) -> dict[str, int]:
    return dict(Counter(image.class_name for image in source.scan(notes or Notes())))


@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
@pytest.mark.parametrize("name", CASES)
def test_what_a_source_holds_is_judged_by_all_its_files(
    name: str, kind: str, tmp_path: Path
) -> None:
    files, layout, expected = CASES[name]
    path = tmp_path / "source"
    if kind == "folder":
        write_folder(path, files)
    else:
        path.write_bytes({"tar": tar, "zip": zipped}[kind](dict(files)))
    choice = Choice(layout=layout)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=f"(?s){re.escape(str(path))}.*{expected}"):
            counted(volume.open_source(path, choice=choice))
    else:
        assert counted(volume.open_source(path, choice=choice)) == expected


def test_archives_beside_parquet_files_are_refused(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "x", {"a.tar": tar(FOLDERS), "x.parquet": PARQUET})
    with pytest.raises(InputError, match=says("a Parquet file", "an archive", "such as a.tar)")):
        volume.open_source(root)
    (root / "a.tar").unlink()
    assert counted(volume.open_source(root)) == PETS


def test_the_download_of_cifar_may_lie_beside_it(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "x", {**CIFAR, "cifar-10-python.tar.gz": b"x"})
    assert counted(volume.open_source(root, scratch=tmp_path)) == SHIPS


def test_a_single_shard_is_known_by_all_its_members(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    samples = {f"{n}.{s}": b"%d" % (n % 2) for n in range(4) for s in ("jpg", "cls")}
    path.write_bytes(tar({**OTHERS, **samples}))
    images = list(volume.open_source(path).scan(Notes()))
    assert {image.name: image.class_name for image in images} == {
        f"x.tar/{n}.jpg": str(n % 2) for n in range(4)
    }
    # A first image with a file beside it does not make a shard of class folders.
    many = {f"data/{c}/{n}.jpg": b"x" for c in "ab" for n in range(99)}
    path.write_bytes(tar({"preview.jpg": b"x", "preview.json": b'{"class": 1}', **many}))
    choice = Choice(layout="classFolders", class_level=2)
    assert counted(volume.open_source(path, choice=choice)) == {"a": 99, "b": 99}


def ilsvrc(root: Path) -> Path:
    """Archives of splits, with class archives for training, a label file, and a test split."""
    return write_folder(
        root,
        {
            "ILSVRC2012_img_train.tar": tar({f"{c}.tar": tar({f"{c}.JPEG": b"x"}) for c in "ab"}),
            "ILSVRC2012_img_val.tar": tar({f"ILSVRC2012_val_{n}.JPEG": b"x" for n in range(3)}),
            "ILSVRC2012_img_test.tar": tar({"1.JPEG": b"x"}),
            GROUND_TRUTH: b"a\nb\na\n",
        },
    )


@pytest.mark.parametrize("layout", ["", "devkit"])
@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_archives_of_splits_are_the_tree_of_the_development_kit(
    kind: str, layout: str, tmp_path: Path
) -> None:
    path = ilsvrc(tmp_path / "x")
    if kind == "tar":
        path = tmp_path / "x.tar"
        files = {one.name: one.read_bytes() for one in sorted((tmp_path / "x").iterdir())}
        path.write_bytes(tar(files))
    source, notes = volume.open_source(path, choice=Choice(layout=layout)), Notes()
    images = list(source.scan(notes))
    assert [image.class_name for image in images] == ["a", "b"]
    assert {source.read(one.name, one.offset, one.size) for one in images} == {b"x"}
    assert_says(source.said, "devkit: classes", "archives below ILSVRC2012_img_train")
    assert source.own_validation is not None
    validation = source.own_validation()
    assert validation is not None
    assert str(validation.labels).endswith(GROUND_TRUTH)
    assert len(list(validation.source.scan(Notes()))) == 3
    (count, example), *others = notes.left_out.values()
    assert (count, "ILSVRC2012_img_test.tar" in example, others) == (1, True, [])


def test_an_archive_of_class_folders_needs_no_label_file(tmp_path: Path) -> None:
    root = ilsvrc(tmp_path / "x")
    (root / "ILSVRC2012_img_val.tar").write_bytes(tar(classes("val", "ab", 2)))
    source = volume.open_source(root)
    counted(source)
    validation = source.own_validation and source.own_validation()
    assert validation
    assert validation.labels is None
    assert counted(validation.source) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("archives", "train", "validation"),
    [
        (("train", "val"), "data/a/0.jpg", "data/a/0.jpg"),
        (("train-0", "val-0", "val-1"), "train-0.tar/data/a/0.jpg", "val-0.tar/data/a/0.jpg"),
        (("train/x", "val/x"), "train/x.tar/data/a/0.jpg", "val/x.tar/data/a/0.jpg"),
    ],
)
def test_names_begin_in_the_archive_if_each_split_has_one(
    archives: tuple[str, ...], train: str, validation: str, tmp_path: Path
) -> None:
    root = write_folder(tmp_path / "x", {f"{name}.tar": tar(FOLDERS) for name in archives})
    source = volume.open_source(root)
    images = list(source.scan(Notes()))
    own = source.own_validation and source.own_validation()
    assert own
    assert images[0].name == train
    assert next(iter(own.source.scan(Notes()))).name == validation


def test_a_test_split_in_an_archive_is_counted(tmp_path: Path) -> None:
    files = {"train.tar": tar(FOLDERS), "test.tar": tar({f"{n}.jpg": b"x" for n in range(4)})}
    notes = Notes()
    assert counted(volume.open_source(write_folder(tmp_path / "x", files)), notes) == AB
    assert notes.left_out == {"test split": (4, "test.tar/0.jpg")}


def test_images_beside_archives_are_counted(tmp_path: Path) -> None:
    inner = {f"{c}.tar": tar({f"{n}.jpg": b"x" for n in range(100)}) for c in "ab"}
    root, notes = write_folder(tmp_path / "x", {**inner, "preview.jpg": b"x"}), Notes()
    assert counted(volume.open_source(root), notes) == {"a": 100, "b": 100}
    assert notes.left_out == {"beside the archives": (1, "preview.jpg")}
    (tmp_path / "x.tar").write_bytes(tar({**inner, "preview.jpg": b"x"}))
    assert counted(volume.open_source(tmp_path / "x.tar"), notes) == {"a": 100, "b": 100}
    assert notes.left_out == {"beside the class folders": (1, "preview.jpg")}
    write_folder(root, {"1.jpg": b"x", "2.jpg": b"x"})
    with pytest.raises(
        InputError, match=says("3 of 203 images would be left out", "3 beside the arch")
    ):
        counted(volume.open_source(root))
