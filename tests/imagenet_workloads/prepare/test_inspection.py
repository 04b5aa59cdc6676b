"""What imagenet-inspect finds in a source, by its command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.commands import inspect
from support.image_trees import TORCHVISION, write_folder, write_tar
from support.pictures import jpeg, with_exif

PHOTOGRAPHS = {f"{name}/{n}.jpg": jpeg(n) for name, n in (("cat", 1), ("cat", 2), ("dog", 3))}

Inspect = Callable[..., dict[str, Any]]


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Inspect:

    def run(source: Path, *options: str) -> dict[str, Any]:
        assert inspect.main(["--source", str(source), *options]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


@pytest.mark.parametrize("write", [write_folder, write_tar], ids=["folder", "tar"])
def test_classes_are_counted(tmp_path: Path, found: Inspect, write: Callable[..., Path]) -> None:
    document = found(write(tmp_path / "photos.tar", PHOTOGRAPHS))
    assert document["classes"] == {"cat": 2, "dog": 1}
    assert document["validation"] is None
    assert document["bytes"] == sum(map(len, PHOTOGRAPHS.values()))
    assert document["sample"]["images"] == 3
    assert document["sample"]["isWhole"]
    assert document["sample"]["shorterEdge"] == {"median": 48, "largest": 48}
    assert not document["sample"]["damaged"]


def test_own_validation_images_are_counted_apart(tmp_path: Path, found: Inspect) -> None:
    document = found(write_folder(tmp_path / "tree", TORCHVISION))
    assert document["classes"] == {"n01": 4, "n02": 4, "n03": 4}
    assert document["validation"] == {"images": 3, "unknown": 0}
    # Both splits are decoded, and the classes of TORCHVISION have the same four images.
    assert document["sample"]["images"] == 15
    assert document["sample"]["copies"] == 8
    assert document["sample"]["conflicts"] == 4


def test_damaged_equal_and_turned_files_are_named(tmp_path: Path, found: Inspect) -> None:
    files = {
        **PHOTOGRAPHS,
        "cat/cut.jpg": jpeg(4)[:400],
        "cat/text.jpg": b"text",
        "cat/1 (copy).jpg": PHOTOGRAPHS["cat/1.jpg"],
        "dog/2.jpg": PHOTOGRAPHS["cat/2.jpg"],
        "dog/turned.jpg": with_exif(jpeg(5), 6),
    }
    sample = found(write_folder(tmp_path / "photos", files))["sample"]
    assert sample["damaged"] == {"cat": 2}
    assert [one["name"] for one in sample["damagedFiles"]] == ["cat/cut.jpg", "cat/text.jpg"]
    assert all(one["reason"] for one in sample["damagedFiles"])
    assert sample["copies"] == 2
    assert sample["conflicts"] == 1
    assert sample["copiedFiles"][0] == ["cat/2.jpg", "dog/2.jpg"], "other classes come first"
    assert sample["turned"] == 1


def test_a_part_of_the_images_is_decoded(tmp_path: Path, found: Inspect) -> None:
    document = found(write_folder(tmp_path / "photos", PHOTOGRAPHS), "--images", "2")
    assert document["classes"] == {"cat": 2, "dog": 1}
    assert document["sample"]["images"] == 2
    assert not document["sample"]["isWhole"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"notes.txt": b"text"}, "holds no images"),
        ({"cat/1.jpg": jpeg(1), "cat/2.jpg": jpeg(2)}, "one folder"),
        ({"1.jpg": jpeg(1), "2.jpg": jpeg(2)}, "no folders"),
    ],
    ids=["none", "one-class", "flat"],
)
def test_sources_without_classes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes], said: str
) -> None:
    assert inspect.main(["--source", str(write_folder(tmp_path / "photos", files))]) != 0
    assert said in capsys.readouterr().err
