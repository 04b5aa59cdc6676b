"""Label files: every form that is read, and a message for every way in which one can be wrong."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat  # type: ignore[import-untyped]

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import labels, matlab

# In the order in which they lie in the archive, which is not that of their names.
NAMES = ["val/img_3.JPEG", "val/img_1.JPEG", "val/img_2.JPEG"]
CLASSES = ["n03", "n01", "n02"]


def names() -> Iterator[str]:
    return iter(NAMES)


def read(tmp_path: Path, text: str, class_names: list[str] = CLASSES) -> list[str]:
    path = tmp_path / "labels.txt"
    path.write_text(text)
    found = labels.read(path, names, class_names)
    return [class_names[number] if number >= 0 else "?" for number in found.tolist()]


def write_meta(folder: Path, ids: dict[int, str], compressed: bool = True) -> None:
    """The development kit's meta.mat, with fields that nobody needs before and between."""
    kind = [("gloss", "O"), ("ILSVRC2012_ID", "O"), ("children", "O"), ("WNID", "O")]
    synsets = np.empty((len(ids), 1), dtype=kind)
    for row, (number, name) in enumerate(ids.items()):
        synsets[row, 0] = (f"gloss of {name}", float(number), np.zeros((1, row)), name)
    savemat(folder / "meta.mat", {"other": 1, "synsets": synsets}, do_compression=compressed)


@pytest.mark.parametrize(
    "text",
    [
        "img_1.JPEG n01\nimg_2.JPEG n02\nimg_3.JPEG n03\n",
        "img_3 n03\n\nimg_2\tn02\nimg_1   n01",
        "ImageId,PredictionString\nimg_2,n02 1 2 3 4\nimg_1,n01 9 9\nimg_3,n03 0\n",
        "some/folder/img_1.JPEG 0\nimg_2.JPEG 1\nimg_3.JPEG 2\n",
        "n01\nn02\nn03\n",
    ],
)
def test_reads_every_form(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) == ["n03", "n01", "n02"]


def test_a_number_that_is_a_class_name_is_that_class(tmp_path: Path) -> None:
    assert read(tmp_path, "7\n8\n9\n", ["9", "8", "7"]) == ["9", "7", "8"]
    assert read(tmp_path, "img_1 7\nimg_2 8\nimg_3 9\n", ["9", "8", "7"]) == ["9", "7", "8"]


def test_classes_that_the_training_lacks_are_unknown(tmp_path: Path) -> None:
    assert read(tmp_path, "n01\nn77\nn03\n") == ["n03", "n01", "?"]
    assert read(tmp_path, "img_1 n01\nimg_2 n77\nimg_3 n03\n") == ["n03", "n01", "?"]


@pytest.mark.parametrize("compressed", [True, False])
def test_translates_the_ids_of_ilsvrc2012(compressed: bool, tmp_path: Path) -> None:
    write_meta(tmp_path, {1: "n02", 2: "n77", 3: "n01", 490: "n03"}, compressed)
    assert read(tmp_path, "3\n2\n490\n") == ["n03", "n01", "?"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no labels"),
        ("n01\nn02\n", "has 2 labels for 3 images"),
        ("n01\nn02\nn03\nn03\n", "has 4 labels for 3 images"),
        ("n01\nn02 n03\nn03\n", "line 2 has two columns"),
        ("img_1 n01\nimg_2\nimg_3 n03\n", "line 2 has one column"),
        ("img_1 n01\nimg_2 n02\n", "has no line for the image val/img_3.JPEG"),
        ("img_1 n01\nimg_1 n02\nimg_3 n03\nimg_2 n01", "names an image twice"),
        ("img_1 0\nimg_2 3\nimg_3 0\n", "line 2: there is no class 3: the source has 3"),
        ("490\n1\n2\n", "line 1: 490 is no class's name.*meta.mat"),
    ],
)
def test_says_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_an_id_that_meta_mat_lacks_is_an_error(tmp_path: Path) -> None:
    write_meta(tmp_path, {1: "n01"})
    with pytest.raises(InputError, match=r"line 2: meta\.mat knows no class 5"):
        read(tmp_path, "1\n5\n1\n")


@pytest.mark.parametrize("content", [b"", b"MATLAB", bytes(200), b"x" * 126 + b"IM" + b"\x0e" * 99])
def test_another_meta_mat_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "meta.mat").write_bytes(content)
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        matlab.read_ids(tmp_path / "meta.mat")


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_an_id_that_is_no_number_is_an_error(number: float, tmp_path: Path) -> None:
    synsets = np.empty((1, 1), dtype=[("ILSVRC2012_ID", "O"), ("WNID", "O")])
    synsets[0, 0] = (number, "n01")
    savemat(tmp_path / "meta.mat", {"synsets": synsets})
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        matlab.read_ids(tmp_path / "meta.mat")


def test_a_meta_mat_that_is_endless_when_decompressed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matlab, "_LARGEST", 1 << 16)
    write_meta(tmp_path, {1: "n01"})
    assert matlab.read_ids(tmp_path / "meta.mat") == {1: "n01"}
    savemat(tmp_path / "meta.mat", {"synsets": np.zeros(1 << 20)}, do_compression=True)
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        matlab.read_ids(tmp_path / "meta.mat")


def test_a_mat_file_of_something_else_is_an_error(tmp_path: Path) -> None:
    savemat(tmp_path / "meta.mat", {"synsets": 3, "x": np.zeros((2, 2))})
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        matlab.read_ids(tmp_path / "meta.mat")


def test_missing_files_are_named(tmp_path: Path) -> None:
    for reads in (lambda: labels.read(tmp_path / "no", names, CLASSES),
                  lambda: labels.fingerprint(tmp_path / "no"),
                  lambda: matlab.read_ids(tmp_path / "no")):  # fmt: skip
        with pytest.raises(InputError, match="no: cannot be read: No such file"):
            reads()


def test_the_fingerprint_covers_the_translation(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("1\n")
    seen = {labels.fingerprint(path)}
    write_meta(tmp_path, {1: "n01"})
    seen.add(labels.fingerprint(path))
    path.write_text("2\n")
    seen.add(labels.fingerprint(path))
    assert len(seen) == 3
