"""Bounding boxes from archives on a server and in a bucket: the dataset of a volume."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_workloads.commands import fetch, index
from imagenet_workloads.dataset import read_dataset
from support.annotations import COUNTS, TRAIN, VALIDATION, Named, annotation, archive
from support.file_server import FileServer, basic
from support.pictures import collection, jpeg, tar, write_tar_of_tars
from support.preparation import contents, prepare, refused, run_index
from support.remote_preparation import files_on_server, prepare_remote, write_secret
from support.s3_server import S3Server, serve_s3

IMAGES = collection({"n01": 3, "n02": 3})
LABELS = b"n01\nn02\nn01\n"
SHARDS = ("--shards", "2")
BOXES = ("boxes/train.tar.gz", "boxes/val.tar")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with archives of images and of annotations; one of these is not compressed."""
    folder = tmp_path_factory.mktemp("files")
    write_tar_of_tars(folder / "train.tar", IMAGES)
    (folder / "val.tar").write_bytes(tar({f"v{n}.JPEG": jpeg(n) for n in range(3)}))
    (folder / "labels.txt").write_bytes(LABELS)
    (folder / "boxes").mkdir()
    (folder / BOXES[0]).write_bytes(archive(TRAIN))
    (folder / BOXES[1]).write_bytes(tar(VALIDATION))
    return folder


@pytest.fixture
def local(files: Path, tmp_path: Path) -> Path:
    validation = ["--validation-source", str(files / "val.tar")]
    labels = ["--validation-labels", str(files / "labels.txt")]
    boxes = [f"--bounding-boxes={files / name}" for name in BOXES]
    return prepare(files / "train.tar", tmp_path / "local", *validation, *labels, *boxes, *SHARDS)


@pytest.fixture(scope="module")
def bucket(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    loose = {f"loose/{name}/{base}": one for name in IMAGES for base, one in IMAGES[name].items()}
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        running.fill("imagenet", contents(files) | loose)
        yield running


@pytest.fixture
def server(files: Path) -> Iterator[FileServer]:
    with FileServer({f"/{name}": one for name, one in contents(files).items()}).running() as found:
        yield found


def on_server(server: FileServer) -> tuple[list[str], list[str]]:
    """The options of all programs, and those of fetch and index."""
    paths = ("train.tar", "val.tar", "labels.txt", *BOXES)
    files = [{"name": one.replace("/", "-"), "url": f"{server.url}/{one}"} for one in paths]
    reading = ["--http-files", json.dumps(files), "--http-validation", "val.tar"]
    boxes = [f"--http-bounding-boxes={path.replace('/', '-')}" for path in BOXES]
    return reading, ["--http-labels", "labels.txt", *boxes]


def in_bucket(server: S3Server, *images: str) -> tuple[list[str], list[str]]:
    """The options of all programs, and those of fetch and index."""
    place = ["--s3-bucket=imagenet", f"--s3-endpoint={server.endpoint}"]
    boxes = [f"--s3-bounding-boxes={key}" for key in BOXES]
    reading = [*place, *images, "--s3-validation=val.tar"]
    return reading, ["--s3-labels=labels.txt", *boxes]


def prepare_cached(cache: Path, data: Path, reading: list[str], more: list[str]) -> Path:
    """Run fetch, then the other programs with its cache."""
    assert fetch.main([*reading, *more, "--cache", str(cache)]) == 0
    return prepare_remote(data, [*reading, "--cache", str(cache)], *more, *SHARDS)


def same(found: Path, expected: Path) -> bool:
    names = ("dataset.json", "boxes.jsonl")
    return found.name == expected.name and all(
        (found / name).read_bytes() == (expected / name).read_bytes() for name in names
    )


def test_archives_of_a_server_give_the_dataset_of_a_volume(
    server: FileServer, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.login = basic("reader", "password")
    secret = write_secret(tmp_path / "secret", username="reader", password="password")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(secret))
    reading, more = on_server(server)
    remote = prepare_remote(tmp_path / "remote", reading, *more, *SHARDS)
    boxes = read_dataset(remote).bounding_boxes
    assert boxes is not None
    assert boxes.counts == COUNTS
    assert same(remote, local)


def test_they_are_read_from_a_cache_without_the_server(
    server: FileServer, local: Path, tmp_path: Path
) -> None:
    server.knows_ranges = False
    reading, more = on_server(server)
    cache = tmp_path / "cache"
    assert same(prepare_cached(cache, tmp_path / "fetched", reading, more), local)
    asked = len(server.requests)
    options = [*reading, *more, "--cache", str(cache), *SHARDS]
    assert run_index(None, tmp_path / "again", *options)["key"] == local.name
    assert len(server.requests) == asked


def test_objects_of_a_bucket_give_the_dataset_of_a_volume(
    bucket: S3Server, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(bucket.secret(tmp_path / "secret")))
    reading, more = in_bucket(bucket, "--s3-key=train.tar")
    assert same(prepare_remote(tmp_path / "remote", reading, *more, *SHARDS), local)
    cache = tmp_path / "cache"
    assert same(prepare_cached(cache, tmp_path / "fetched", reading, more), local)
    # Neither the keys nor the bucket are needed any more.
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    options = [*reading, *more, "--cache", str(cache), *SHARDS]
    assert run_index(None, tmp_path / "again", *options)["key"] == local.name
    # Loose images have boxes too.
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(tmp_path / "secret"))
    reading, more = in_bucket(bucket, "--s3-prefix=loose")
    assert run_index(None, tmp_path / "loose", *reading, *more, *SHARDS)["boundingBoxes"] == COUNTS


def test_many_annotations_of_a_tar_take_few_requests(server: FileServer, tmp_path: Path) -> None:
    one = annotation(Named("n01", (0, 0, 8, 8)))
    # Some do not fit the first windows, others begin in one and end in the next.
    many = {f"val/w{number}.xml": one + b" " * (number * 7 % 9_000) for number in range(2_000)}
    server.content[f"/{BOXES[1]}"] = tar(VALIDATION | many)
    reading, more = on_server(server)
    result = run_index(None, tmp_path / "data", *reading, *more, *SHARDS)
    without = COUNTS["annotationsWithoutImage"] + len(many)
    assert result["boundingBoxes"] == {**COUNTS, "annotationsWithoutImage": without}
    assert [one.path for one in server.requests].count(f"/{BOXES[1]}") < 40


def test_an_archive_that_is_missing_or_damaged_is_named(
    server: FileServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, more = on_server(server)
    server.content[f"/{BOXES[0]}"] = archive(TRAIN)[:-30]
    said = refused(capfd, *reading, *more, "--data", tmp_path / "data")
    assert f"{server.url}/boxes/train.tar.gz: does not decompress" in said
    del server.content[f"/{BOXES[0]}"]
    said = refused(capfd, *reading, *more, "--data", tmp_path / "data")
    assert f"{server.url}/boxes/train.tar.gz: 404 Not Found" in said


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        (
            [*files_on_server("http://x", "x.tar"), "--http-bounding-boxes=y.tgz"],
            "y.tgz is no name in --http-files",
        ),
        (
            [*files_on_server("http://x", "x.tar"), "--s3-bounding-boxes=y.tgz"],
            "--s3-bounding-boxes goes with --s3-bucket",
        ),
    ],
)
def test_a_mistake_in_the_options(
    options: list[str], mistake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        index.main([*options, "--data", "/nowhere"])
    assert mistake in capfd.readouterr().err
