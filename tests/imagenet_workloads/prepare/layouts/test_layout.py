"""Trees that lie one level too high are refused with the path to write; paths reach into tars."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.source import Image, Notes
from imagenet_workloads.prepare.sources import volume
from support.pictures import jpeg, tar, write_folder
from support.preparation import contents, prepare
from support.sentences import says

SPLITS = ("train/n01/1.jpg", "train/n02/2.jpg", "val/n01/3.jpg", "val/n02/4.jpg")


def write(root: Path, names: Iterable[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def write_tar(path: Path, names: Iterable[str]) -> Path:
    path.write_bytes(tar(dict.fromkeys(names, b"x")))
    return path


def classes(path: Path, within: str | None = None) -> dict[str, int]:
    source = volume.open_source(path, within)
    found: dict[str, int] = {}
    for image in source.scan(Notes()):
        found[image.class_name] = found.get(image.class_name, 0) + 1
    source.close()
    return found


@pytest.mark.parametrize(
    ("names", "right"),
    [
        (SPLITS[:2], "train"),
        (("Training/a/1.jpg", "Training/b/1.jpg", "Testing/3.jpg"), "Training"),
        (("data/a/1.jpg", "data/b/deep/2.jpg", "data/c/3.jpg"), "data"),
        (("x/data/a/1.jpg", "x/data/b/1.jpg", "x/readme.txt"), "x/data"),
    ],
)
def test_a_root_above_the_classes_gives_the_same_classes(
    names: tuple[str, ...], right: str, tmp_path: Path
) -> None:
    root = write(tmp_path / "source", names)
    expected = classes(root / right)
    assert len(expected) > 1
    path = write_tar(tmp_path / "x.tar", names)
    for found in (classes(root), classes(path), classes(path, right)):
        assert found == expected


def test_a_folder_one_level_too_low_is_refused_with_the_path_to_write(tmp_path: Path) -> None:
    root = write(tmp_path / "source", ("a/1.jpg", "a/2.jpg", "a/list.txt", "b/3.jpg"))
    with pytest.raises(
        InputError, match=says("such as 1.jpg", "are in no", f"write --source {root} (")
    ):
        classes(root / "a")


def test_the_path_to_write_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path / "source", ("a/1.jpg", "b/2.jpg")))
    with pytest.raises(InputError, match=rf"^a: .* write --source {tmp_path}/source \(path\)"):
        classes(Path("a"))


@pytest.mark.parametrize("stray", [1, 2])
def test_images_beside_the_class_folders_are_left_out_up_to_one_percent(
    stray: int, tmp_path: Path
) -> None:
    names = [f"{name}/{number}.jpg" for name in ("a", "b") for number in range(50)]
    root = write(tmp_path / "source", [*names, *(f"{number}.jpg" for number in range(stray))])
    notes = Notes()
    source = volume.open_source(root)
    if stray == 1:
        assert len(list(source.scan(notes))) == 100
        assert notes.left_out == {"beside the class folders": (1, "0.jpg")}
    else:
        with pytest.raises(InputError, match=r"2 of 102 images .*; to leave .* '\*/\*\*'"):
            list(source.scan(notes))


@pytest.mark.parametrize("names", [("train/1.jpg", "val/2.jpg"), ("test/1.jpg", "train/1.jpg")])
def test_splits_without_class_folders_are_refused(names: tuple[str, ...], tmp_path: Path) -> None:
    for path in (write(tmp_path / "source", names), write_tar(tmp_path / "x.tar", names)):
        with pytest.raises(InputError, match="are splits, not classes") as caught:
            classes(path)
        # The folder above has the splits too.
        assert "write --source" not in str(caught.value)


@pytest.mark.parametrize(
    "names",
    [
        ("bus/1.jpg", "train/1.jpg"),  # as in CIFAR-100
        ("bus/city/1.jpg", "bus/school/2.jpg", "train/steam/1.jpg"),
        ("a/images/1.jpg", "b/images/1.jpg"),
        ("a/images/1.jpg", "b/1.jpg"),
        ("a/1.jpg",),
        ("a/1.jpg", "a/2.jpg"),
    ],
)
def test_folders_that_may_be_classes_are(names: tuple[str, ...], tmp_path: Path) -> None:
    expected = {name.partition("/")[0] for name in names}
    assert classes(write(tmp_path / "source", names)).keys() == expected
    path = write_tar(tmp_path / "x.tar", names)
    assert classes(path, ".").keys() == expected


def test_a_path_reaches_into_a_tar_of_tars_and_into_a_tar_in_a_tar(tmp_path: Path) -> None:
    inner = {f"{name}.tar": tar({f"{name}.jpg": b"x"}) for name in ("n01", "n02")}
    path = tmp_path / "x.tar"
    path.write_bytes(
        tar({
            "readme.jpg": b"x", "all/train.tar": tar(inner), "all/val.tar": tar({"1.jpg": b"x"}),
            **{f"train/{name}": content for name, content in inner.items()},
        })
    )  # fmt: skip
    for within in ("train", "train/", "./train", "all/train.tar"):
        assert classes(path, within) == {"n01": 1, "n02": 1}
    for kind, within in (("tar of tars", "train"), ("tar of tars", "all/train.tar")):
        source = volume.open_source(path, within)
        images: list[Image] = list(source.scan(Notes()))
        assert source.kind == kind
        assert [source.read(one.name, one.offset, one.size) for one in images] == [b"x", b"x"]
        source.close()


def test_tars_of_splits_in_a_tar_are_splits(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    inner = tar({"n01/1.jpg": b"x", "n02/2.jpg": b"x"})
    path.write_bytes(tar({"train.tar": inner, "val.tar": inner}))
    assert classes(path) == classes(path, "train.tar") == {"n01": 1, "n02": 1}
    source = volume.open_source(path)
    assert source.own_validation is not None
    assert source.own_validation() is not None


def test_a_path_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", SPLITS)
    for within in ("gone", "trai", "train/n01/1.jpg"):
        with pytest.raises(InputError, match=f"{path}: holds neither images .* under {within}"):
            classes(path, within)
    root = write(tmp_path / "source", SPLITS)
    with pytest.raises(
        InputError, match=says("is a folder", "not an archive", "write", "source/train")
    ):
        classes(root, "train")


def test_the_dataset_of_a_path_in_an_archive_is_that_of_its_images(tmp_path: Path) -> None:
    images = {f"train/{name}/{n}.jpg": jpeg(n) for name in ("a", "b") for n in range(4)}
    (tmp_path / "x.tar").write_bytes(tar({**images, "val/v.jpg": jpeg(9)}))
    options = ("--path-in-archive", "train", "--shards", "1")
    one = prepare(tmp_path / "x.tar", tmp_path / "data", *options)
    folder = {name: {f"{n}.jpg": jpeg(n) for n in range(4)} for name in ("a", "b")}
    other = prepare(write_folder(tmp_path / "source", folder), tmp_path / "data", "--shards", "1")
    assert {name for name in contents(one) if name.endswith(".rec")} == {
        name for name in contents(other) if name.endswith(".rec")
    }
