"""Bounding boxes, from ILSVRC's archives to the records and boxes.jsonl."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.commands import seal
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import bounding_boxes, publish
from imagenet_workloads.prepare.bounding_boxes import BoundingBoxes, parse_annotation, upright
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.prepare.source import LARGEST_ANNOTATION
from imagenet_workloads.prepare.stores.volume import File
from imagenet_workloads.records.format import Box
from support.annotations import COUNTS, TRAIN, VALIDATION, Named, annotation, archive
from support.pictures import collection, tar, write_folder
from support.preparation import examples, prepare, refused, run_index
from support.sentences import assert_says

LINES = {
    ("train", "n01_0"): [[0.25, 0.25, 0.5, 0.75], [0.5, 0.5, 1.0, 1.0]],
    ("train", "n02_1"): [[0.0, 0.0, 1.0, 1.0]],
    ("validation", "v1"): [[0.0, 0.0, 0.25, 1.0]],
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two classes, and beside them a flat validation and both archives of annotations."""
    images = collection({"n01": 3, "n02": 3})
    (tmp_path / "val").mkdir()
    for number, content in enumerate(images["n01"].values()):
        (tmp_path / "val" / f"v{number}.JPEG").write_bytes(content)
    (tmp_path / "labels.txt").write_text("n01\nn02\nn01\n")
    (tmp_path / "train.tar.gz").write_bytes(archive(TRAIN))
    (tmp_path / "val.tgz").write_bytes(archive(VALIDATION))
    return write_folder(tmp_path / "source", images)


def options(source: Path, *archives: str) -> list[str]:
    root = source.parent
    boxes = [f"--bounding-boxes={root / name}" for name in archives]
    validation = ["--validation-source", str(root / "val")]
    labels = ["--validation-labels", str(root / "labels.txt")]
    return ["--shards", "2", "--resize", "16", *validation, *labels, *boxes]


def test_boxes_are_in_the_records_and_in_the_sidecar(source: Path) -> None:
    both = options(source, "train.tar.gz", "val.tgz")
    dataset = prepare(source, source.parent / "data", *both, "--format", "TFRecord")
    found = read_dataset(dataset).bounding_boxes
    assert found is not None and found.counts == COUNTS
    expected = dict(LINES)
    keys: dict[tuple[str, int], str] = {}
    numbers = {"train": 0, "validation": 0}
    for split, features in examples(dataset):
        file = features["image/filename"][0]
        assert isinstance(file, bytes)
        name = keys[split, numbers[split]] = file.decode().removesuffix(".JPEG")
        numbers[split] += 1
        assert list(features) == sorted(features)
        boxes = expected.pop((split, name), None)
        if boxes is None:
            assert not [one for one in features if one.startswith("image/object")]
            continue
        edges = [features[f"image/object/bbox/{edge}"] for edge in ("xmin", "ymin", "xmax", "ymax")]
        assert [list(box) for box in zip(*edges, strict=True)] == boxes
        labels = features["image/object/bbox/label"]
        assert labels == [features["image/class/label"][0]] * len(boxes)
    assert not expected
    # The same images in the same order, and the same file, in both formats.
    other = prepare(source, source.parent / "data", *both)
    lines = (dataset / "boxes.jsonl").read_text()
    assert (other / "boxes.jsonl").read_text() == lines
    entries = [json.loads(line) for line in lines.splitlines()]
    assert {
        (one["split"], keys[one["split"], one["key"]]): one["boxes"] for one in entries
    } == LINES


def test_the_file_of_the_boxes_is_deleted_with_the_dataset(source: Path) -> None:
    dataset = prepare(source, source.parent / "data", *options(source, "train.tar.gz"))
    publish.delete(dataset)
    assert {path.name for path in dataset.iterdir()} == {"plan", "limits.json"}


def test_without_annotations_nothing_changes(source: Path) -> None:
    data = source.parent / "data"
    plain = prepare(source, data, *options(source))
    assert not (plain / "boxes.jsonl").exists()
    for path in (plain / "dataset.json", plain / "plan" / "plan.json", *plain.glob("train-*.json")):
        assert "oxes" not in path.read_text()
    planned = (plain / "plan" / "train-00000-of-00002.jsonl").read_text().splitlines()
    assert {len(json.loads(line)) for line in planned} == {5}
    found = run_index(source, data, *options(source, "val.tgz", "train.tar.gz"))
    assert (found["key"] != plain.name, found["boundingBoxes"]) == (True, COUNTS)
    # The order of the archives changes nothing, their content does.
    same = run_index(source, data, *options(source, "train.tar.gz", "val.tgz"))
    assert same["key"] == found["key"]
    assert run_index(source, data, *options(source, "train.tar.gz"))["key"] != found["key"]


def test_a_lost_file_of_boxes_is_noticed_and_written_again(
    source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, both = source.parent / "data", options(source, "train.tar.gz", "val.tgz")
    dataset = prepare(source, data, *both)
    content = (dataset / "boxes.jsonl").read_bytes()
    (dataset / "boxes.jsonl").write_bytes(content[:-1])
    for of_it in (["--dataset", str(dataset)], ["--data", str(data), "--key", dataset.name]):
        assert seal.main([*of_it, "--verify"]) == 3
        said = capfd.readouterr().err
        assert_says(said, "boxes.jsonl: ", "is not as dataset.json says", "prepare")
    prepare(source, data, *both)
    assert (dataset / "boxes.jsonl").read_bytes() == content
    assert seal.main(["--data", str(data), "--key", dataset.name, "--verify"]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive({"n03/n03_0.xml": TRAIN["n02/n02_77.xml"]}), "has no annotation of any image"),
        (archive({"../n01/n01_0.xml": TRAIN["n02/n02_0.xml"]}), "has no annotation of any image"),
        (archive({f"{one}/n01/n01_0.xml": TRAIN["n01/n01_0.xml"] for one in "ab"}),
         "b/n01/n01_0.xml: a second annotation for the image n01/n01_0; remove one"),
        (archive(TRAIN)[:-30], "does not decompress"),
        (tar(TRAIN)[:2000], "so the archive is truncated"),
        (b"<annotation/>" * 100, "is damaged, or is not a tar"),
    ],
)  # fmt: skip
def test_a_wrong_archive_is_one_error(
    content: bytes, message: str, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (source.parent / "wrong").write_bytes(content)
    data = str(source.parent / "data")
    given = ["--source", str(source), "--data", data, *options(source, "wrong")]
    assert message in refused(capfd, *given)


@pytest.mark.parametrize(
    ("content", "message"),
    [(archive(TRAIN)[:-30], "does not decompress"), (tar(TRAIN)[:2000], "is truncated")],
)
def test_a_damaged_archive_is_closed_once(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "damaged").write_bytes(content)
    file = File(tmp_path / "damaged")
    closed = []
    close = file.close

    def count() -> None:
        closed.append(file)
        close()

    monkeypatch.setattr(file, "close", count)
    with pytest.raises(InputError, match=message):
        BoundingBoxes([lambda: file], tmp_path)
    assert closed == [file]


def test_no_archive_is_too_much_for_memory_or_disk(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounding_boxes, "_MOST", 3)
    with pytest.raises(InputError, match="has more than 3 annotations or boxes"):
        BoundingBoxes([partial(File, source.parent / "train.tar.gz")], source.parent)
    monkeypatch.setattr("imagenet_workloads.prepare.stores.compressed.LARGEST", 1000)
    with pytest.raises(InputError, match="decompress it to a tar first"):
        BoundingBoxes([partial(File, source.parent / "train.tar.gz")], source.parent)


BOMB = b'<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><annotation>&y;</annotation>'
OUTSIDE = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>'


@pytest.mark.parametrize(
    ("edges", "expected", "clamped"),
    [
        ((8, 6, 16, 18), Box(0.25, 0.25, 0.5, 0.75), 0),
        ((0, 0, 32, 24), Box(0, 0, 1, 1), 0),
        ((-3, 6, 40.5, 18), Box(0, 0.25, 1, 0.75), 1),
        # n03127925_147.xml and others have xmin and xmax the wrong way round.
        ((16, 18, 8, 6), Box(0.25, 0.25, 0.5, 0.75), 0),
    ],
)
def test_edges_become_fractions_inside_the_image(
    edges: tuple[float, ...], expected: Box, clamped: int
) -> None:
    xmin, ymin, xmax, ymax = edges
    found = parse_annotation(annotation(Named("n01", (xmin, ymin, xmax, ymax))))
    assert found == (("n01",), (expected,), clamped, 0)


@pytest.mark.parametrize("edges", [(8, 6, 8, 18), (8, 6, 16, 6), (40, 6, 50, 18), (8, -9, 16, 0)])
def test_a_box_without_area_in_the_image_is_left_out(edges: tuple[int, int, int, int]) -> None:
    found = parse_annotation(annotation(Named("n01", edges), Named("n02", (0, 0, 16, 24))))
    assert found == (("n02",), (Box(0, 0, 0.5, 1),), 0, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid XML: no element found"),
        (b"<annotation><size>", "is not valid XML: no element found"),
        (b"\xff\xfe\0", "is not valid XML"),
        (b'<?xml version="1.0" encoding="no"?><annotation/>', "lacks width"),
        (b"<a><b/></a>", "begins with <a>, not <annotation>"),
        (b"<annotation>" * 5000, "nests elements deeper than 8"),
        (BOMB, "has a document type, which no annotation needs"),
        (OUTSIDE, "has a document type, which no annotation needs"),
        (b"x" * (LARGEST_ANNOTATION + 1), "has 65537 bytes; at most 65536 are read"),
        (annotation(width=0), "has an image of 0x24 pixels"),
        (annotation(height="1e9"), "has an image of 32x1e\\+09 pixels"),
        (annotation(width="nan"), "has a width that is no number: 'nan'"),
        (annotation(Named("a", (0, 0, "inf", 1))), "has a xmax that is no number: 'inf'"),
        (annotation(Named("a", (0, "NaN", 1, 1))), "has a ymin that is no number: 'NaN'"),
        (annotation(Named("a", (0, "", 1, 1))), "has a ymin that is no number: ''"),
        (annotation().replace(b"</size>", b"</size><object/>"), "lacks xmin"),
    ],
)
def test_anything_else_is_an_error_in_words(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_annotation(content)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_no_edges_lead_out_of_the_image(edges: list[float]) -> None:
    xmin, ymin, xmax, ymax = edges
    found = parse_annotation(annotation(Named("n01", (xmin, ymin, xmax, ymax))))
    assert len(found.boxes) + found.empty == 1
    for box in found.boxes:
        assert 0 <= box.xmin < box.xmax <= 1
        assert 0 <= box.ymin < box.ymax <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_turns_as_the_pixels_do(orientation: int) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[4:20, 8:16] = 255
    (box,) = upright((Box(0.1, 0.1, 0.2, 0.5),), orientation)
    ys, xs = np.nonzero(opencv.turned(pixels, orientation)[:, :, 0])
    height, width = opencv.turned(pixels, orientation).shape[:2]
    assert box == pytest.approx(
        (xs.min() / width, ys.min() / height, (xs.max() + 1) / width, (ys.max() + 1) / height)
    )
