"""Label files: every form that is read, and a message for every way in which one can be wrong."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat  # type: ignore[import-untyped]

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts import devkit, labels
from support import development_kit

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


SPACED = ["golden retriever", "golden", "tench, Tinca tinca", "cat"]


@pytest.mark.parametrize(
    "text",
    [
        "img_1 golden retriever\nimg_2.JPEG golden\nimg_3 tench, Tinca tinca\n",
        'img_1,golden retriever\nimg_2,golden\nimg_3,"tench, Tinca tinca"\n',
        "ImageId,PredictionString\nimg_3,tench, Tinca tinca 1 2 3 4\n"
        "img_1,golden retriever 9 9\nimg_2,golden 5\n",
        "img_1\tgolden retriever\textra\nimg_2\tgolden\nimg_3\t tench, Tinca tinca\n",
        "img_1 2\nimg_2 1\nimg_3 3\n",
        "golden retriever\ngolden\ntench, Tinca tinca\n",
        'golden retriever\r\ngolden\r\n"tench, Tinca tinca"\r\n',
    ],
)
def test_names_of_classes_may_hold_spaces_and_commas(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text, SPACED) == ["tench, Tinca tinca", "golden retriever", "golden"]


def test_a_class_with_a_space_that_the_training_lacks_is_unknown(tmp_path: Path) -> None:
    assert read(tmp_path, "golden\nsilver retriever\ncat\n", SPACED) == ["cat", "golden", "?"]
    assert read(tmp_path, "silver one\ngolden retriever\ncat\n", SPACED)[1:] == [
        "?", "golden retriever",
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    ["n01\nn02\nn03\n", "img_1 n01\nimg_2 n02\nimg_3 n03\n",
     "ImageId,PredictionString\r\nimg_1,n01 1\r\nimg_2,n02\r\nimg_3,n03\r\n"],
)  # fmt: skip
def test_a_byte_order_mark_is_no_part_of_a_name(text: str, encoding: str, tmp_path: Path) -> None:
    mark = "" if encoding in ("utf-8-sig", "utf-16") else "\ufeff"
    (tmp_path / "labels.txt").write_bytes((mark + text).encode(encoding))
    found = labels.read(tmp_path / "labels.txt", names, CLASSES)
    assert [CLASSES[number] for number in found] == ["n03", "n01", "n02"]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("n01\nN02\nn03\n", {"N02": 1}),
        ("img_1 n77\nimg_2 n77\nimg_3 N03\nimg_4 n99\n", {"n77": 2, "N03": 1}),
        ("img_1 -1\nimg_2 2\nimg_3 \u00b2\n", {"-1": 1, "\u00b2": 1}),
        ("-1\nn01\nn02\n", {"-1": 1}),
        ("img_1 n01\nimg_2 n02\nimg_3 n03\n", {}),
    ],
)
def test_labels_of_unknown_classes_are_counted_by_class(
    text: str, unknown: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text(text)
    counted = Counter[str]()
    found = labels.read(tmp_path / "labels.txt", names, CLASSES, counted)
    assert counted == unknown
    assert [number for number in found if number < 0] == [labels.UNKNOWN] * counted.total()


def write_meta(folder: Path, ids: dict[int, str], compressed: bool = True) -> None:
    (folder / "meta.mat").write_bytes(development_kit.meta(ids, compressed=compressed))


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
        ("img_1 0\n\nimg_2 3\nimg_3 0\n", "line 3: there is no class 3"),
        ("ImageId,x\nimg_1 0\nimg_2 3\nimg_3 0\n", "line 3: there is no class 3"),
        (f"img_1 0\nimg_2 {'9' * 5000}\nimg_3 0\n", "line 2: there is no class 9999"),
        ("n01\n\nn02 n03\nn03\n", "line 3 has two columns"),
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
        devkit.read_ids(tmp_path / "meta.mat")


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_an_id_that_is_no_number_is_an_error(number: float, tmp_path: Path) -> None:
    synsets = np.empty((1, 1), dtype=[("ILSVRC2012_ID", "O"), ("WNID", "O")])
    synsets[0, 0] = (number, "n01")
    savemat(tmp_path / "meta.mat", {"synsets": synsets})
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        devkit.read_ids(tmp_path / "meta.mat")


def test_a_meta_mat_that_is_endless_when_decompressed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devkit, "_LARGEST", 1 << 16)
    write_meta(tmp_path, {1: "n01"})
    assert devkit.read_ids(tmp_path / "meta.mat") == {1: "n01"}
    savemat(tmp_path / "meta.mat", {"synsets": np.zeros(1 << 20)}, do_compression=True)
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        devkit.read_ids(tmp_path / "meta.mat")


def test_a_mat_file_of_something_else_is_an_error(tmp_path: Path) -> None:
    savemat(tmp_path / "meta.mat", {"synsets": 3, "x": np.zeros((2, 2))})
    with pytest.raises(InputError, match=r"is not the meta\.mat of ILSVRC2012"):
        devkit.read_ids(tmp_path / "meta.mat")


def test_missing_files_are_named(tmp_path: Path) -> None:
    for reads in (lambda: labels.read(tmp_path / "no", names, CLASSES),
                  lambda: labels.fingerprint(tmp_path / "no"),
                  lambda: devkit.read_ids(tmp_path / "no")):  # fmt: skip
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
