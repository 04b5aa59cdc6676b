"""Bounding boxes of Kaggle's tree: the dataset of the same annotations in ILSVRC's archives."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.prepare.source import LARGEST_ANNOTATION
from support.annotations import Named, annotation, archive
from support.file_server import FileServer
from support.image_trees import KAGGLE, TORCHVISION, WRITERS, write_folder, write_zip
from support.kaggle_server import serve_kaggle
from support.pictures import zipped
from support.preparation import examples, prepare, refused, run_index
from support.remote_preparation import files_on_server, prepare_fetched, prepare_remote
from support.s3_server import S3Server, serve_s3
from support.sentences import assert_says

ROOT = "ILSVRC/Annotations/CLS-LOC/"
TRAIN = {
    # The second box reaches beyond the image.
    "n01/n01_0.xml": annotation(Named("n01", (8, 6, 16, 18)), Named("n01", (16, 12, 99, 24))),
    "n02/n02_1.xml": annotation(Named("n02", (5, 5, 5, 9)), Named("n01", (0, 0, 9, 9))),
    "n02/n02_2.xml": b"<annotation>",
    "n03/n03_0.xml": annotation(Named("n03", (0, 0, 32, 24))) + b" " * LARGEST_ANNOTATION,
    "n03/n03_1.xml": annotation(Named("n03", (0, 0, 16, 24))),
    "n03/n03_77.xml": annotation(Named("n03", (0, 0, 16, 24))),
}
VALIDATION = {"val/v_0.xml": annotation(Named("n01", (0, 0, 8, 24)))}
COUNTS = {
    "images": 3,
    "boxes": 4,
    "clamped": 1,
    "empty": 1,
    "ofOtherClasses": 1,
    "damagedAnnotations": 2,
    "annotationsWithoutImage": 1,
}
IMAGES = {name: content for name, content in KAGGLE.items() if not name.startswith(ROOT)}
TREE = {
    **IMAGES,
    **{f"{ROOT}train/{name}": content for name, content in TRAIN.items()},
    **{f"{ROOT}{name}": content for name, content in VALIDATION.items()},
    f"{ROOT}train/n01/readme.txt": b"no annotation",
    # Those of the videos are not of these images.
    "ILSVRC/Annotations/VID/train/n01/n01_1.xml": TRAIN["n01/n01_0.xml"],
}
OPTIONS = ("--shards", "2", "--read-annotations")


def expected(folder: Path, writer: str = "zip", *more: str) -> Path:
    folder.mkdir()
    (folder / "train.tar.gz").write_bytes(archive(TRAIN))
    (folder / "val.tgz").write_bytes(archive(VALIDATION))
    source = WRITERS[writer](folder / "source", IMAGES)
    boxes = [f"--bounding-boxes={folder / name}" for name in ("train.tar.gz", "val.tgz")]
    return prepare(source, folder / "data", "--shards", "2", *boxes, *more)


def boxes_of(dataset: Path) -> str:
    found = read_dataset(dataset).bounding_boxes
    assert found is not None
    assert found.counts == COUNTS
    return (dataset / "boxes.jsonl").read_text()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_tree_has_the_boxes_of_its_annotations(writer: str, tmp_path: Path) -> None:
    source = WRITERS[writer](tmp_path / "source", TREE)
    dataset = prepare(source, tmp_path / "data", *OPTIONS)
    archives = expected(tmp_path / "archives", writer)
    assert boxes_of(dataset) == boxes_of(archives)
    # Without the option, the annotations count for nothing.
    plain = prepare(source, tmp_path / "data", "--shards", "2")
    assert (plain != dataset, read_dataset(plain).bounding_boxes) == (True, None)


def test_the_records_of_tensorflow_have_them(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "kaggle.zip", TREE)
    dataset = prepare(source, tmp_path / "data", *OPTIONS, "--format", "TFRecord")
    found = {
        features["image/filename"][0]: features["image/object/bbox/xmax"]
        for _, features in examples(dataset)
        if "image/object/bbox/xmax" in features
    }
    assert found == {b"n01_0.JPEG": [0.5, 1.0], b"n03_1.JPEG": [0.5], b"v_0.JPEG": [0.25]}
    lines = [json.loads(line) for line in boxes_of(dataset).splitlines()]
    assert sorted(len(line["boxes"]) for line in lines) == [1, 1, 2]


@pytest.mark.parametrize("below", ["ILSVRC", "ILSVRC/Data", "ILSVRC/Data/CLS-LOC"])
@pytest.mark.parametrize("writer", WRITERS)
def test_they_are_found_from_any_folder_above_the_splits(
    writer: str, below: str, tmp_path: Path
) -> None:
    source, within = WRITERS[writer](tmp_path / "source", TREE), ["--path-in-archive", below]
    source, within = (source / below, []) if writer == "folder" else (source, within)
    assert run_index(source, tmp_path / "data", *OPTIONS, *within)["boundingBoxes"] == COUNTS


def test_drawn_validation_images_keep_their_boxes(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "kaggle.zip", TREE)
    drawn = ("--validation-per-class", "1")
    found = run_index(source, tmp_path / "data", *OPTIONS, *drawn)["boundingBoxes"]
    # The images of the folder val are in no split.
    assert found == {**COUNTS, "images": 2, "boxes": 3, "annotationsWithoutImage": 2}


@pytest.fixture
def server() -> Iterator[FileServer]:
    # So many that a request for each would be noticed.
    box = annotation(Named("n01", (0, 0, 8, 8)))
    more = {f"{ROOT}val/w{number}.xml": box for number in range(1_000)}
    content = zipped({**TREE, **more}, zipfile.ZIP_DEFLATED)
    with FileServer({"/kaggle.zip": content}).running() as running:
        yield running


def test_those_of_a_zip_on_a_server_take_few_requests(server: FileServer, tmp_path: Path) -> None:
    reading = files_on_server(server.url, "kaggle.zip")
    result = run_index(None, tmp_path / "data", *reading, *OPTIONS)
    assert result["boundingBoxes"] == {**COUNTS, "annotationsWithoutImage": 1_001}
    assert len(server.requests) < 100
    cached = prepare_fetched(tmp_path / "cache", tmp_path / "cached", reading, *OPTIONS)
    assert cached.name == result["key"]


def test_the_zip_of_a_competition_has_them(tmp_path: Path) -> None:
    content = zipped(TREE, zipfile.ZIP_DEFLATED)
    with serve_kaggle({"competitions/data/download-all/x": content}, "") as kaggle:
        reading = ["--kaggle-competition=x", f"--kaggle-endpoint={kaggle.api.url}"]
        dataset = prepare_remote(tmp_path / "data", reading, *OPTIONS)
    assert boxes_of(dataset) == boxes_of(expected(tmp_path / "archives"))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        running.fill("trees", {f"kaggle/{name}": content for name, content in TREE.items()})
        yield running


@pytest.mark.parametrize("below", ["", "/ILSVRC/Data"])
def test_they_may_be_objects_of_a_bucket(
    below: str, bucket: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(bucket.secret(tmp_path / "secret")))
    reading = ["--s3-bucket=trees", f"--s3-endpoint={bucket.endpoint}"]
    found = run_index(None, tmp_path / "data", *reading, f"--s3-prefix=kaggle{below}", *OPTIONS)
    assert found["boundingBoxes"] == COUNTS


def test_a_damaged_member_of_a_zip_is_a_damaged_annotation(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "kaggle.zip", TREE)
    content = bytearray(source.read_bytes())
    name = f"{ROOT}train/n03/n03_1.xml".encode()
    content[content.index(name) + len(name) + 8] ^= 0xFF
    source.write_bytes(content)
    found = run_index(source, tmp_path / "data", *OPTIONS)["boundingBoxes"]
    assert found == {**COUNTS, "images": 2, "boxes": 3, "damagedAnnotations": 3}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_tree_without_annotations_is_refused(
    writer: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = WRITERS[writer](tmp_path / "source", IMAGES)
    options = ["--source", str(source), "--data", str(tmp_path / "data"), *OPTIONS]
    said = refused(capfd, *options)
    assert_says(said, "ILSVRC/Annotations/CLS-LOC: ", "no annotation")
    other = WRITERS[writer](tmp_path / "other", TORCHVISION)
    said = refused(capfd, "--source", str(other), "--data", str(tmp_path / "data"), *OPTIONS)
    assert_says(said, str(other), "no annotations", "Annotations/CLS-LOC beside Data")
    assert_says(said, "remove --read-annotations (readAnnotations)")


@pytest.mark.parametrize("link", ["", "train/n01/n01_0.xml"])
def test_a_link_out_of_a_folder_is_refused(
    link: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(tmp_path / "source", TREE)
    path = source / ROOT / link
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    said = refused(capfd, "--source", str(source), "--data", str(tmp_path / "data"), *OPTIONS)
    assert f"is a link to {tmp_path}/moved, out of the source" in said


def test_an_image_is_annotated_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = write_zip(tmp_path / "kaggle.zip", TREE)
    (tmp_path / "val.tgz").write_bytes(archive(VALIDATION))
    options = ["--source", str(source), "--data", str(tmp_path / "data"), *OPTIONS]
    said = refused(capfd, *options, f"--bounding-boxes={tmp_path / 'val.tgz'}")
    assert_says(said, f"{ROOT}val/v_0.xml: ", "second annotation", "val/v_0;", "remove one")
