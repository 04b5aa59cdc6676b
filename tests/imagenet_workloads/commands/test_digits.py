"""The example archive has the form of ImageNet's, real content, and the same bytes each time."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.datasets import load_digits

from imagenet_workloads.commands import digits

PROGRAM = "imagenet_workloads.commands.digits"


def make(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def contents(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        opened = {member.name: members.extractfile(member) for member in members}
        return {name: file.read() for name, file in opened.items() if file is not None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits")
    said = make(path / "new" / "digits.tar", "--sample", path / "zero.jpg")
    assert "1629 images of 10 classes, 12 of them of class 9" in said
    return path


def test_an_inner_tar_a_class_one_of_them_rare(folder: Path) -> None:
    inner = contents((folder / "new" / "digits.tar").read_bytes())
    assert list(inner) == [f"{label}.tar" for label in range(10)]
    counts = {name: len(contents(archive)) for name, archive in inner.items()}
    assert counts["9.tar"] == 12
    # The counts that scikit-learn's documentation of its digits gives.
    assert list(counts.values())[:9] == [178, 182, 177, 183, 181, 182, 181, 179, 174]


def test_the_images_are_grey_jpegs_of_28_pixels_with_dark_paper(folder: Path) -> None:
    digits = contents(contents((folder / "new" / "digits.tar").read_bytes())["0.tar"])
    assert next(iter(digits)) == "0_0.JPEG"
    for content in list(digits.values())[:20]:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
        assert image is not None and image.shape == (28, 28)
        # A zero: no ink in a corner, little in its centre, much on its ring.
        assert image[0, 0] < 40
        assert image[13:15, 13:15].mean() < image.max() / 2
        assert image.max() > 200


def test_the_sample_is_one_of_the_images(folder: Path) -> None:
    digits = contents(contents((folder / "new" / "digits.tar").read_bytes())["0.tar"])
    assert (folder / "zero.jpg").read_bytes() in digits.values()


def test_the_same_bytes_each_time_and_nothing_beside_them(folder: Path, tmp_path: Path) -> None:
    make(tmp_path / "digits.tar")
    assert (tmp_path / "digits.tar").read_bytes() == (folder / "new/digits.tar").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["digits.tar"]


def test_another_rare_class_and_size(tmp_path: Path) -> None:
    arguments = ("--rare-class", "0", "--rare-images", "3", "--size", "32")
    make(tmp_path / "digits.tar", *arguments, "--sample", tmp_path / "one.jpg")
    inner = contents((tmp_path / "digits.tar").read_bytes())
    assert len(contents(inner["0.tar"])) == 3
    assert len(contents(inner["9.tar"])) == 180
    sample = cv2.imread(str(tmp_path / "one.jpg"), cv2.IMREAD_UNCHANGED)
    assert sample is not None and sample.shape == (32, 32)


def test_the_stored_digits_are_those_of_scikit_learn() -> None:
    file = Path(digits.__file__).with_suffix(".npz")
    assert file.stat().st_size <= 200_000
    stored, original = np.load(file), load_digits()
    assert np.array_equal(stored["images"], original.images)
    assert np.array_equal(stored["labels"], original.target)
    assert original.images.max() == digits.INK
