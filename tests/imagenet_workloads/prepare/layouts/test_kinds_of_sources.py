"""Kinds of sources that were once read wrongly: each with its siblings, right or refused."""

import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import entry_names
from imagenet_workloads.prepare.entry_names import TEST, TRAINING, UNLABELLED, VALIDATION
from imagenet_workloads.prepare.layouts import labels
from imagenet_workloads.prepare.source import Notes, class_name_in
from imagenet_workloads.prepare.sources import volume
from imagenet_workloads.prepare.stores.compressed import chunks
from support.blobs import BytesBlob
from support.image_trees import write_folder
from support.pictures import tar, zipped
from support.public_datasets import classes, shard
from support.sentences import assert_says, says

TWO = classes("x", ("a", "b"), 2)


def counted(path: Path) -> dict[str, int]:
    source = volume.open_source(path)
    found = Counter(image.class_name for image in source.scan(Notes()))
    source.require_classes()
    return dict(found)


def test_a_name_s_words_say_its_split() -> None:
    named = {
        TRAINING: "train training trainset train_images TrainingData train2017 images-train",
        VALIDATION: "val valid validation dev val_set ValidationData validation-images",
        TEST: "test testing Test eval test1 test_data testset",
        UNLABELLED: "pred unlabeled unlabelled_images",
        "": "trains train_val2019 trainval n01440764 test-multiple_fruits my_train latest devices",
    }
    for split, names in named.items():
        assert {entry_names.split_of(name) for name in names.split()} == {split}, split


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        ("cars_train cars_test", "training test"),
        ("train.X1 train.X2 val.X", "training training validation"),
        ("a_train b_test", " "),
        ("imagenet-dev-train-0.tar imagenet-dev-val-0.tar", "training validation"),
        ("train-00000-of-00002.parquet test-00000-of-00001-ab12cd34.parquet", "training test"),
        ("x-train-0.tar x-extra-0.tar", "training "),
        ("my-train-0 my-extra-0", " "),
    ],
)
def test_siblings_say_their_splits(names: str, splits: str) -> None:
    assert list(entry_names.splits(names.split()).values()) == splits.split(" ")


@pytest.mark.parametrize("suffix", ["cls", "txt", "target", "label", "json"])
def test_labels_of_shards_may_come_late(suffix: str, tmp_path: Path) -> None:
    content = b'{"label": "%d"}' if suffix == "json" else b"%d"
    members = {f"{n:02}.txt.bak": b"" for n in range(20)}
    members |= {
        name: data
        for n in range(4)
        for name, data in ((f"z{n}.jpg", b"x"), (f"z{n}.{suffix}", content % (n % 2)))
    }
    root = write_folder(tmp_path / "w", {f"x-train-{n}.tar": tar(members) for n in range(2)})
    (root / "x-train-.tar").write_bytes(tar({}))
    assert counted(root) == {"0": 4, "1": 4}
    # One image without a label is named, and no layout below takes its place.
    (root / "x-train-2.tar").write_bytes(tar({**members, "zz.jpg": b"x"}))
    with pytest.raises(InputError, match=r"x-train-2\.tar/zz\.jpg: has no class"):
        counted(root)


def test_captions_are_no_labels(tmp_path: Path) -> None:
    for name in ("a", "b"):
        members = {f"{n}.{s}": b"x" * 200 for n in range(3) for s in ("jpg", "txt")}
        write_folder(tmp_path / "w", {f"{name}.tar": tar(members)})
    assert counted(tmp_path / "w") == {"a": 3, "b": 3}


HIDDEN = (".ipynb_checkpoints", "lost+found", ".Trash-1000", "__MACOSX", "@eaDir")


@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_folders_are_left_out_and_counted_in_each_container(
    hidden: str, tmp_path: Path
) -> None:
    files = {**classes("", ("a", "b")), f"{hidden}/1.jpg": b"x", f"a/{hidden}/2.jpg": b"x"}
    files = {name.lstrip("/"): content for name, content in files.items()}
    paths = [write_folder(tmp_path / "folder", files)]
    for name, data in (("x.tar", tar(files)), ("x.zip", zipped(files))):
        (tmp_path / name).write_bytes(data)
        paths.append(tmp_path / name)
    for path in paths:
        notes = Notes()
        found = Counter(image.class_name for image in volume.open_source(path).scan(notes))
        assert found == {"a": 3, "b": 3}
        assert notes.left_out["hidden folders"][0] == 2


@pytest.mark.parametrize("mtime", [-1, -157766400, -0.5])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_may_have_times_before_1970(form: int, mtime: float, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=form) as archive:
        for name in TWO:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 1, mtime if form == tarfile.PAX_FORMAT else int(mtime) or -1
            archive.addfile(info, io.BytesIO(b"x"))
    assert counted(path) == {"a": 2, "b": 2}


def test_a_tar_may_be_incremental(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        names = b"Y1.jpg\0\0"
        folder = tarfile.TarInfo("x/")
        folder.type, folder.size = b"D", len(names)
        assert archive.fileobj is not None
        archive.fileobj.write(folder.tobuf(tarfile.GNU_FORMAT) + names.ljust(512, b"\0"))
        for name in TWO:
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.fileobj.write(info.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0"))
        archive.offset = archive.fileobj.tell()
    assert counted(path) == {"a": 2, "b": 2}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("padding", [0, 4, 8192])
def test_xz_may_be_padded(padding: int, parts: int) -> None:
    content = b"".join(lzma.compress(b"a" * 100) + bytes(padding) for _ in range(parts))
    assert b"".join(chunks(BytesBlob(content))) == b"a" * 100 * parts
    with pytest.raises(InputError, match="does not decompress"):
        list(chunks(BytesBlob(lzma.compress(b"a" * 100)[:-9])))


@pytest.mark.parametrize("is_right", [True, False])
def test_a_zip_may_have_names_in_info_zip_s_field(is_right: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for raw, name in (("caf_/1.jpg", "café/1.jpg"), ("b/1.jpg", "b/1.jpg")):
            info = zipfile.ZipInfo(raw)
            checksum = zlib.crc32(raw.encode()) if is_right else 1
            content = struct.pack("<BI", 1, checksum) + name.encode()
            info.extra = struct.pack("<HH", 0x7075, len(content)) + content
            archive.writestr(info, b"x")
    source = volume.open_source(path)
    found = list(source.scan(Notes()))
    assert {one.class_name for one in found} == {"café" if is_right else "caf_", "b"}
    assert {source.read(one.name, one.offset, one.size) for one in found} == {b"x"}


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_name_twice_in_an_archive_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{kind}"
    names = [*TWO, "x/a/1.jpg"]
    if kind == "tar":
        with tarfile.open(path, "w") as appended:
            for name in names:
                appended.addfile(tarfile.TarInfo(name))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in TWO:
                archive.writestr(name, b"x")
            with pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr(names[-1], b"y")
    with pytest.raises(InputError, match=r"holds x/a/1\.jpg twice"):
        counted(path)


@pytest.mark.parametrize("name", ["柴　犬", "a\u200db", "a\u200cb", "a\u00a0b", "é", "a\u00adb"])
def test_a_class_may_be_called_by_any_letters(name: str) -> None:
    assert class_name_in(name, "x") == name


@pytest.mark.parametrize("name", ["a\n", "a\x7f", "a\u2028", "a\u2029", "a\ufffd", "a\u202eb"])
def test_a_class_s_name_has_no_control_characters(name: str) -> None:
    with pytest.raises(InputError, match="holds control characters"):
        class_name_in(name, "x")


LABELS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "a width before the class": (
        "filename,width,height,class\na.jpg,24,20,n0\nb.jpg,24,20,n1\n",
        (0, 1),
    ),
    "quoted": ('"id","label"\n"a.jpg","n0"\n"b.jpg","n1"\n', (0, 1)),
    "semicolons": ("image;class\na.jpg;n1\nb.jpg;n0\n", (1, 0)),
    "tabs": ("file_name\tlabel\na.jpg\tn1\nb.jpg\tn1\n", (1, 1)),
    "a class before the image": ("label,image\nn1,a.jpg\nn0,b.jpg\n", (1, 0)),
    "no heading": ("a.jpg,n0\nb.jpg,n1\n", (0, 1)),
    "spaces": ("a.jpg n0\nb.jpg n1\n", (0, 1)),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_label_file_may_be_a_table(name: str, tmp_path: Path) -> None:
    text, expected = LABELS[name]
    path = tmp_path / "l.csv"
    path.write_text(text)
    found = labels.read(path, lambda: iter(("a.jpg", "b.jpg")), [f"n{n}" for n in range(30)])
    assert tuple(found) == expected


@pytest.mark.parametrize("image", ["my (1).jpg", "a,b.jpg", "a b.c.jpg"])
def test_names_of_images_may_hold_spaces_and_commas(image: str, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    quoted = f'"{image}"' if "," in image else image
    path.write_text(f"{quoted},n0\nother.jpg,n1\n")
    found = labels.read(path, lambda: iter((image, "other.jpg")), ["n0", "n1"])
    assert tuple(found) == (0, 1)


def test_a_table_of_sizes_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("filename,width,height\na.jpg,24,20\n")
    with pytest.raises(
        InputError, match=says("(filename", "width", "height", "do not say which is the")
    ):
        labels.read(path, lambda: iter(("a.jpg",)), ["n0"])


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("train-annotations-human-imagelabels.csv", ["Open Images", "one line", "ImageID"]),
        ("class-descriptions-boxable.csv", ["Open Images", "one line", "ImageID"]),
        ("annotations/instances_train.json", ["COCO", "python -c "]),
        ("labels.mat", ["may hold labels", "pip install scipy; python -c "]),
    ],
)
def test_labels_of_another_form_are_named(file: str, hint: list[str], tmp_path: Path) -> None:
    root = write_folder(tmp_path / "x", {"1.jpg": b"x", "2.jpg": b"x", file: b"ImageID,x\n0,1\n"})
    with pytest.raises(InputError) as caught:
        counted(root)
    remedy = "--labels-csv labels.csv (source.labels: {csv: labels.csv})"
    assert_says(str(caught.value), f"{file} ", *hint, remedy)


def test_shards_of_one_split_are_training_images(tmp_path: Path) -> None:
    names = {f"imagenet-val-{n}.tar": shard("v", n) for n in range(2)}
    assert counted(write_folder(tmp_path / "w", names)) == {"0": 4, "1": 2}
